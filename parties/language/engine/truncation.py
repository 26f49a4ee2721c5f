"""What keeping texts to a greatest length leaves out, said once by whoever reads them."""

from collections.abc import Sequence

from configs.language import Language
from parties.common.progress import Watch
from parties.language.texts.encoding import Encoded, cut_from


def say_unlearned(watch: Watch, rows: Sequence[Encoded], agreement: Language) -> None:
    """Warn of what clients' texts have beyond the greatest length of a text that is learned."""
    longer = f"are longer than model.length = {agreement.model.length}"
    say_cut(watch, rows, longer, "neither learned nor measured")


def say_cut(watch: Watch, rows: Sequence[Encoded], longer: str, lost: str) -> None:
    """Warn where rows were cut: how many, and how many tokens are ``lost``.

    A long text in pieces counts by its pieces, of which none is cut.
    """
    found = cut_from(rows)
    if found.rows:
        watch.warn(
            f"{found.rows:,} of {len(rows):,} texts {longer}: {found.tokens:,} tokens are {lost}"
        )
