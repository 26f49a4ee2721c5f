"""HTTP prediction service of the active party."""
