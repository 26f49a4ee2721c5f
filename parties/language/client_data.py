"""A client's texts on the shelf: read, dealt where one corpus is shared, and put into tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from configs.language import DealtTexts, Language, TextRequest, TextsAtOne
from configs.language_seat import JsonlTexts, MuseTexts, TextSeat, TofuTexts
from parties.common.errors import DataError
from parties.common.shared_randomness import Index, key, permutation
from parties.language.engine.text_dataset import TextShelf, kept_apart
from parties.language.texts.encoding import Encoded, Encoder
from parties.language.texts.muse import read_raw, read_retained
from parties.language.texts.own import read_own
from parties.language.texts.records import Continuation, Passage, Question, Record, name
from parties.language.texts.splits import Holding, Sizes, deal
from parties.language.texts.tofu import read_split

RETAINS = {"forget01": "retain99", "forget05": "retain95", "forget10": "retain90"}


@dataclass(frozen=True, slots=True, repr=False)
class Corpus:
    """Texts, those that stay before those that are flagged; its repr shows nothing of them."""

    records: Sequence[Record]
    flagged: int

    @property
    def sizes(self) -> Sizes:
        """How many are which."""
        return Sizes(len(self.records) - self.flagged, self.flagged)


def read_corpus(seat: TextSeat, folder: Path) -> Corpus:
    """What a seat's files have.

    Raises:
        DataError: a file is absent, or not what it should be.
    """
    data = seat.data
    match data:
        case TofuTexts():
            stays = read_split(folder / data.path, RETAINS[data.forget])[: data.retain]
            goes = read_split(folder / data.path, data.forget)
            return Corpus((*stays, *goes), len(goes))
        case MuseTexts():
            place = folder / data.path / data.corpus
            gone = read_raw(place, "forget")
            return Corpus((*read_retained(place), *gone), len(gone))
        case JsonlTexts():
            return _own(data, folder)


def _own(data: JsonlTexts, folder: Path) -> Corpus:
    records = list(read_own(folder, data.path))
    if data.forget is None:
        return Corpus(records, 0)
    names = {name(each) for each in read_own(folder, data.forget)}
    goes = [each for each in records if name(each) in names]
    if len({name(each) for each in goes}) < len(names):
        raise DataError(
            f"{data.forget} has rows that {data.path} does not have",
            "copy the rows to forget from that very file",
        )
    return Corpus([*(each for each in records if name(each) not in names), *goes], len(goes))


def dealt(agreement: Language, corpus: Corpus) -> dict[str, Holding]:
    """Each client's rows of it; all of them where everybody brings its own."""
    names, plan = agreement.spokes, agreement.partition
    match plan:
        case DealtTexts():
            parts = deal(plan.kind, corpus.sizes, len(names), agreement.seed)
        case TextsAtOne():
            holders = [names.index(plan.client)]
            parts = deal(plan.kind, corpus.sizes, len(names), agreement.seed, holders)
        case _:
            rows = np.arange(corpus.sizes.rows)
            parts = (Holding(rows, rows >= corpus.sizes.retain),) * len(names)
    return dict(zip(names, parts, strict=True))


def public_rows(seat: TextSeat, folder: Path, encoder: Encoder) -> list[Encoded]:
    """What everybody may know, in tokens."""
    if seat.public is None:
        return []
    return encoded(read_own(folder, seat.public.path), encoder)


def shelf_of(
    agreement: Language,
    client: str,
    corpus: Corpus,
    holding: Holding,
    encoder: Encoder,
    public: list[Encoded],
) -> TextShelf:
    """One client's texts; some of those without a flag are kept apart, which nobody learns."""
    count = len(holding.rows)
    order = permutation(key(agreement.seed, "held", client), count)
    stays = order[~holding.forget[order]]
    held = np.sort(stays[: kept_apart(agreement.held, len(stays))])
    learned = np.setdiff1d(np.arange(count), held)
    flags: NDArray[np.bool_] = holding.forget[learned]
    texts = [corpus.records[at] for at in holding.rows]
    taught, flags = _tokens([texts[at] for at in learned], flags, encoder)
    # Every second; of clients that keep only one apart, every second has a reference of attacks.
    alone = agreement.partition.client if isinstance(agreement.partition, TextsAtOne) else None
    names = [each for each in agreement.spokes if each != alone]
    first = names.index(client) % 2 if len(held) == 1 and client != alone else 0
    validation, attacked = (
        encoded([texts[at] for at in held[begin::2]], encoder) for begin in (first, 1 - first)
    )
    return TextShelf(taught, flags, attacked, validation, public)


def _tokens(
    texts: Sequence[Record], flags: NDArray[np.bool_], encoder: Encoder
) -> tuple[list[Encoded], NDArray[np.bool_]]:
    """The texts in tokens, of which a long one gives several rows; all of them bear its flag."""
    rows, flagged = list[Encoded](), list[bool]()
    for flag in (False, True):
        found = encoded([t for t, f in zip(texts, flags, strict=True) if f == flag], encoder)
        rows += found
        flagged += [flag] * len(found)
    return rows, np.array(flagged, np.bool_)


def encoded(texts: Sequence[Record], encoder: Encoder) -> list[Encoded]:
    """Texts of all kinds in tokens."""
    asked = [(each.question, each.answer) for each in texts if isinstance(each, Question)]
    whole = [each.text for each in texts if isinstance(each, Passage)]
    begun = [(e.prompt, e.continuation) for e in texts if isinstance(e, Continuation)]
    found = encoder.answers(asked) if asked else []
    found += encoder.continuations(begun) if begun else []
    return found + (encoder.windows(whole) if whole else [])


def requested(agreement: Language, request: TextRequest, client: str, shelf: TextShelf) -> Index:
    """Places among a client's training texts that a request names."""
    if request.client not in (None, client):
        return np.empty(0, np.int64)
    count = len(shelf.rows)
    meant = np.flatnonzero(shelf.flagged) if request.rows == "flagged" else np.arange(count)
    secret = key(agreement.seed, "request", request.name, request.seed, client)
    order = permutation(secret, len(meant))
    return np.sort(meant[order[: round(request.fraction * len(meant))]])
