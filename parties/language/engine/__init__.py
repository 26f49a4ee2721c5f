"""Language models: base model with adapters, local training, aggregation of adapters."""
