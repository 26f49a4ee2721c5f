"""Language mode: clients that fine-tune one language model on texts of their own, and forget."""
