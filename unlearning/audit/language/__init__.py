"""Audits of a language model: metrics from numbers, texts and log-probabilities.

This package runs no model; callers pass the outputs of the model. Log-probabilities of the true
tokens are ``[batch, tokens]``, with a mask of the tokens that belong to the answer. All
computations are in float64. Definitions follow TOFU (arXiv 2401.06121), MUSE (arXiv 2407.06460) and
the code of open-unlearning.
"""
