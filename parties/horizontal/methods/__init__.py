"""Client unlearning methods, one file per method; each returns the unlearned model."""
