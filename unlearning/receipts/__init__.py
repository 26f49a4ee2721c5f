"""Signed receipts of unlearning: what they contain, and how a reader checks them offline."""
