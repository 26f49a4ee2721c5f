"""Audits of a language model: numbers, texts and log-probabilities in, figures out.

No model is asked here. Log-probabilities are of the true tokens, ``[batch, tokens]`` with a mask of
where there is one (``unlearning.llm.likelihood.token_log_probs``). Everything is at double
precision. Definitions follow TOFU (arXiv 2401.06121), MUSE (arXiv 2407.06460) and open-unlearning.
"""
