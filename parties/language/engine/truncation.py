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
    """Warn if texts were truncated; state the number of truncated texts and of removed tokens.

    If a text is split into windows, each window is counted as a text that is not truncated.

    Args:
        progress: receiver of the warning.
        rows: encoded texts.
        longer: the part of the warning that says why, such as "are longer than 512 tokens".
        lost: the part of the warning that says how removed tokens are treated, such as
            "not measured".
    """
    found = count_truncated(rows)
    if found.rows:
        progress.warn(
            f"{found.rows:,} of {len(rows):,} texts {longer}: {found.tokens:,} tokens are {lost}"
        )
