"""Audits: did it forget, did it keep, and what did the forgetting itself give away."""
