"""Forget some rows while the rest stays: objectives, primal-dual steps, baselines and audits."""
