"""Forgetting sequences of a language model: objectives on logits, likelihoods and activations.

Logits are ``[batch, tokens, vocabulary]``, labels ``[batch, tokens]`` with -100 where no loss is
taken (prompt and padding). Every objective is to be *minimised*; a score is to be *raised*. None
gives a certificate.
"""
