"""The networks: bottoms and tops of the split model, and arithmetic on their parameters."""
