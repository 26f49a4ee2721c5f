"""Engine of the horizontal mode: the cohort of clients, rounds, messages and the run's journal."""
