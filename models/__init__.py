"""Networks: bottom and top models of the split model, full networks, and language models."""
