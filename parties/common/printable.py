"""Printable text: untrusted text with control characters escaped and its length limited."""

from typing import Any

LONGEST = 1024  # characters of one field


def printable(text: str, longest: int = LONGEST) -> str:
    """Return ``text`` with unprintable characters escaped, cut after ``longest`` characters.

    Line ends, terminal control codes and characters that change the writing direction are escaped.
    """
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text[:longest]
    )
    return shown if len(text) <= longest else f"{shown}... ({len(text)} characters)"


def printable_event(value: Any) -> Any:
    """Return an event with ``printable`` applied to each text in it, keys included."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_event(key): printable_event(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [printable_event(inner) for inner in value]
    return value
