"""Unlearning objectives for language models, on logits, likelihoods and hidden activations.

Logits are ``[batch, tokens, vocabulary]``. Labels are ``[batch, tokens]``, with −100 at tokens
without a loss (prompt and padding). Every loss is to be *minimised*; a score is to be *raised*.
None of these objectives gives a certificate of unlearning.
"""
