"""Quantities as people read them: shares, counts, seconds and bytes; what was not run says so."""

NOT_RUN = "not run"
NARROW = "\N{NARROW NO-BREAK SPACE}"  # keeps a number and its unit on one line
MINUS = "\N{MINUS SIGN}"


def number(value: float | None, digits: int) -> str:
    """Return a plain number with ``digits`` decimals."""
    return NOT_RUN if value is None else f"{value:.{digits}f}".replace("-", MINUS)


def signed(value: float, digits: int) -> str:
    """Return a difference with its sign, which a zero as printed does not have."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", MINUS)


def share(value: float | None, digits: int = 1) -> str:
    """Return a fraction as per cent."""
    return NOT_RUN if value is None else f"{number(100 * value, digits)}{NARROW}%"


def count(value: float | None) -> str:
    """Return a number of things, its thousands parted."""
    return NOT_RUN if value is None else f"{value:,.0f}"


def times(value: float | None) -> str:
    """Return a ratio; more than one decimal a few seeds cannot carry."""
    return NOT_RUN if value is None else f"{number(value, 1)}{NARROW}×"


def seconds(value: float | None) -> str:
    """Return a duration, in minutes from two minutes on."""
    if value is None:
        return NOT_RUN
    if value >= 120:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes:,}{NARROW}min {rest:02d}{NARROW}s"
    return f"{number(value, 1 if value >= 10 else 2)}{NARROW}s"


def size(value: float | None) -> str:
    """Return bytes in decimal units, as networks are sold."""
    if value is None:
        return NOT_RUN
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.{0 if unit == 'B' else 1}f}{NARROW}{unit}"
        value /= 1000
    return f"{value:,.1f}{NARROW}TB"


def listing(words: list[str]) -> str:
    """Return words as a sentence has them: a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
