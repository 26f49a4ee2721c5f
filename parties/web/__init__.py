"""HTTP service for predictions."""
