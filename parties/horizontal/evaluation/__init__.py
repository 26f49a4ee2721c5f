"""Evaluation of the models of an unlearning request, and comparison with the Retrain model."""
