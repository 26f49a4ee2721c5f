"""Sums in which no single update is seen: by pairwise masks, or encrypted."""
