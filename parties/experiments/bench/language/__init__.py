"""The tables of language models that forget."""
