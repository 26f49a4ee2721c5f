"""Simulation of a federated run: clients in worker processes on one machine or on a Ray cluster."""
