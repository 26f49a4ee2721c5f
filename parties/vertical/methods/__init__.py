"""The ways to unlearn, one file each, and what they have in common."""
