"""Unlearning methods of all modes: their interface, and the driver that carries them out."""
