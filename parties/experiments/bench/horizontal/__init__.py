"""Benchmark of client unlearning: the tables of FedOSD, FedForget and Mimir."""
