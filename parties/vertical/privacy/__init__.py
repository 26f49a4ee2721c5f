"""Privacy: noise on sent values, the ledger of a party's releases, and the privacy claims."""
