"""What a client does with its rows: lessons, what is its own, and what it tells."""
