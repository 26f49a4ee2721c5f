"""Prediction after training, with all parties online: for a file of IDs, or as a service."""
