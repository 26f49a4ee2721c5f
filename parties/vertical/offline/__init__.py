"""The requests and the kept model of one party, without a network."""
