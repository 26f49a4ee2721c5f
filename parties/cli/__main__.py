"""``python -m parties.cli`` runs ``vfl``."""

from parties.cli.main import main

main()
