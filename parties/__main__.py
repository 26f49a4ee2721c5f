"""``python -m parties`` runs one party, as ``vfl-party`` does."""

from parties.cli.main import party_main

party_main()
