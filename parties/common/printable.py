"""Text from elsewhere made safe to show: control characters are escaped and length is capped."""

from typing import Any

LONGEST = 1024  # characters of one field


def printable(text: str, longest: int = LONGEST) -> str:
    """``text`` without line ends, terminal codes or turned directions, and not longer than said."""
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text[:longest]
    )
    return shown if len(text) <= longest else f"{shown}... ({len(text)} characters)"


def printable_event(value: Any) -> Any:
    """The same for every text in an event, however deep, its keys included."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_event(key): printable_event(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [printable_event(inner) for inner in value]
    return value
