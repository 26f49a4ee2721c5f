"""Prediction with a trained vertical model and all parties online: for a file, or as a service."""
