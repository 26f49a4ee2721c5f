"""Noise on what a party sends, the ledger of it, and what may be claimed for it."""

NONE = "no formal privacy"
