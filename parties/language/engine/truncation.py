"""Warnings about texts that exceed the maximum length and are truncated."""

from collections.abc import Sequence

from configs.language import LanguageAgreement
from parties.common.progress import ProgressReporter
from parties.language.texts.encoding import EncodedText, count_truncated


def warn_of_truncated_texts(
    progress: ProgressReporter, rows: Sequence[EncodedText], agreement: LanguageAgreement
) -> None:
    """Warn if texts of clients are longer than ``model.length``."""
    longer = f"are longer than model.length = {agreement.model.length}"
    warn_of_truncation(progress, rows, longer, "neither trained on nor measured")


def warn_of_truncation(
    progress: ProgressReporter, rows: Sequence[EncodedText], longer: str, lost: str
) -> None:
    """Warn if rows were truncated; state the number of truncated rows and of removed tokens.

    A text that is split into windows counts as one row for each window; windows are not truncated.

    Args:
        progress: receiver of the warning.
        rows: encoded texts.
        longer: words after "texts" in the warning, such as "are longer than 512 tokens".
        lost: words after "tokens are" in the warning, such as "not measured".
    """
    found = count_truncated(rows)
    if found.rows:
        progress.warn(
            f"{found.rows:,} of {len(rows):,} texts {longer}: {found.tokens:,} tokens are {lost}"
        )
