"""Benchmark of language models: the tables of Oblivionis."""
