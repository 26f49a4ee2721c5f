"""What the parties agree on, what each keeps to itself, and the runs that ship."""
