"""Experiments of client unlearning: the tables of FedOSD, FedForget, Mimir and what they cite."""
