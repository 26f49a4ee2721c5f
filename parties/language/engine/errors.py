"""Translation of errors of language models into ``DataError``, which has an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

from models.language.errors import LanguageModelError
from parties.common.errors import DataError


@contextmanager
def translate_model_errors() -> Iterator[None]:
    """Translate a ``LanguageModelError`` from the ``with`` block into a ``DataError``.

    Raises:
        DataError: the block raised a ``LanguageModelError``; message and hint stay the same.
    """
    try:
        yield
    except LanguageModelError as error:
        raise DataError(str(error), error.hint) from error
