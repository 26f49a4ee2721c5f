"""Translation of language-model errors into the party's errors, which have an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

from models.language.errors import LanguageModelError
from parties.common.errors import DataError


@contextmanager
def translate_model_errors() -> Iterator[None]:
    """Translate a ``LanguageModelError`` of the body into a ``DataError``.

    Raises:
        DataError: the body raised ``LanguageModelError``; message and hint are the same.
    """
    try:
        yield
    except LanguageModelError as error:
        raise DataError(str(error), error.hint) from error
