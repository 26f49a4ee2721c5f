"""Evaluation of the models of a request, and metrics in comparison with Retrain."""
