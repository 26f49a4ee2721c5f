"""``vfl init``: proposes the agreement and the party settings from a party's table."""
