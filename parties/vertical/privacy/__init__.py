"""Privacy: noise on what a party sends, the ledger of its releases, and the privacy claims."""
