"""What the models of a request amount to, beside Retrains."""
