"""Audits of a language model: metrics from numbers, texts and log-probabilities.

No model is called here. Log-probabilities are those of the true tokens, ``[batch, tokens]``, with a
mask of the tokens that belong to the answer. All computations are in float64. Definitions follow
TOFU (arXiv 2401.06121), MUSE (arXiv 2407.06460) and the program open-unlearning.
"""
