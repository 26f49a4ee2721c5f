"""The split model: local models, row sets and training loop."""
