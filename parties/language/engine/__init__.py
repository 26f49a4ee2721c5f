"""Language models: base model, adapters, local training."""
