"""Engine of the horizontal mode: the connected clients, rounds, messages and the run's journal."""
