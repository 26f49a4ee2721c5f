"""Ways to unlearn texts: rounds in which those who hold them descend an objective of their own."""
