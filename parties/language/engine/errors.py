"""Errors of language models as a party tells them: with an exit code, like those of other data."""

from collections.abc import Iterator
from contextlib import contextmanager

from models.language.errors import LanguageModelError
from parties.common.errors import DataError


@contextmanager
def told() -> Iterator[None]:
    """While the body works with a model's folder or adapters.

    Raises:
        DataError: what was wrong with them, and the hint.
    """
    try:
        yield
    except LanguageModelError as error:
        raise DataError(str(error), error.hint) from error
