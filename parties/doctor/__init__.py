"""What would keep a party from running on this machine, found before the run and not in it."""
