"""Identity, handshake, checkpoints and reconnection: the same in all modes."""
