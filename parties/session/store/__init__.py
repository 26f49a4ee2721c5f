"""Store of sealed files of a party: its kept models, and the keys that seal them."""
