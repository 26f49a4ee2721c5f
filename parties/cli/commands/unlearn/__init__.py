"""``vfl unlearn``: requests to forget rows of a kept model, at one party and without a network."""
