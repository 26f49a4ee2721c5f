"""``python -m parties.experiments.bench`` is one run in a process of its own, as ``vfl simulate`` does it."""

from parties.cli.main import simulate_main

simulate_main()
