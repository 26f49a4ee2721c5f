"""Secure aggregation: the server receives sums of updates, by pairwise masks or by CKKS."""
