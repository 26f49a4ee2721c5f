"""Client unlearning methods, one file per method; each method returns the unlearned model."""
