"""The client's computations: local tasks, training, evaluation and personal parameters."""
