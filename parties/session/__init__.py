"""Identity, handshake, checkpoints and reconnection of a party, used by all modes."""
