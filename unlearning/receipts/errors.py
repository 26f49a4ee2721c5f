"""Exceptions of receipts. An error message contains no ID and no salt."""


class ReceiptError(Exception):
    """A receipt, or a file that belongs to it, is malformed or contradicts itself.

    ``hint`` is advice for the user.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class CanonicalError(ReceiptError, ValueError):
    """Bytes are not canonical JSON, or a value has no canonical form."""


class UnknownVersion(ReceiptError):
    """A receipt has a version that this program does not know."""
