"""Prediction with a trained vertical model, for a file or as a service; all parties are online."""
