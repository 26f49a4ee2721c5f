"""Unlearning methods of the vertical mode, one file each."""
