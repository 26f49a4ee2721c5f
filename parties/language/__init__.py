"""Language mode: clients fine-tune one language model on their own texts, and unlearn texts."""
