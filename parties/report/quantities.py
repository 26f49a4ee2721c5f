"""Formatting of percentages, counts, ratios, seconds, bytes, dates; None is shown as "not run"."""

import math
from datetime import UTC, datetime

NOT_RUN = "not run"
NARROW = "\N{NARROW NO-BREAK SPACE}"  # keeps a number and its unit on one line
MINUS = "\N{MINUS SIGN}"


def format_number(value: float | None, digits: int) -> str:
    """Return a number with ``digits`` decimals."""
    return NOT_RUN if value is None else f"{value:.{digits}f}".replace("-", MINUS)


def format_difference(value: float, digits: int) -> str:
    """Return a difference with its sign; a value that rounds to zero has no sign."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", MINUS)


def format_percent(value: float | None, digits: int = 1) -> str:
    """Return a fraction as a percentage."""
    return NOT_RUN if value is None else f"{format_number(100 * value, digits)}{NARROW}%"


def format_count(value: float | None) -> str:
    """Return a count with a comma as thousands separator."""
    return NOT_RUN if value is None else f"{value:,.0f}"


def format_ratio(value: float | None) -> str:
    """Return a ratio with one decimal; values from a few seeds are not more precise."""
    return NOT_RUN if value is None else f"{format_number(value, 1)}{NARROW}×"


def format_seconds(value: float | None) -> str:
    """Return a duration in seconds; from two minutes, in minutes and seconds."""
    if value is None:
        return NOT_RUN
    if value >= 120:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes:,}{NARROW}min {rest:02d}{NARROW}s"
    return f"{format_number(value, 1 if value >= 10 else 2)}{NARROW}s"


def format_moment(moment: datetime) -> str:
    """Return a date and time in UTC, in the format of ISO 8601."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def format_day(moment: datetime) -> str:
    """Return a date and time in UTC for readers, to the minute."""
    return f"{moment.astimezone(UTC):%d %B %Y, %H:%M} UTC"


def format_size(value: float | None) -> str:
    """Return a number of bytes in decimal units: 1 kB is 1000 B."""
    if value is None:
        return NOT_RUN
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.{0 if unit == 'B' else 1}f}{NARROW}{unit}"
        value /= 1000
    return f"{value:,.1f}{NARROW}TB"


def format_epsilon(epsilon: float) -> str:
    """Return ε as a decimal with four significant digits, rounded up."""
    digits = 4 - math.ceil(math.log10(epsilon)) if epsilon > 0 else 0
    return f"{math.ceil(epsilon * 10**digits) / 10**digits:g}"


def join_words(words: list[str]) -> str:
    """Return words joined as in a sentence, such as "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
