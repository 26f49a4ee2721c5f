"""Data of a client in the language mode: reading, partition and tokenisation of its texts."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from configs.language import DealtTexts, LanguageAgreement, TextRequest, TextsAtOne
from configs.language_party_settings import JsonlTexts, LanguageClientSettings, MuseTexts, TofuTexts
from parties.common.errors import DataError
from parties.common.shared_randomness import Index, derive_key, id_fractions, permutation
from parties.horizontal.local.rows import indices_of
from parties.language.engine.text_dataset import TextDataset, held_out_count
from parties.language.texts.encoding import EncodedText, TextEncoder
from parties.language.texts.muse import read_muse_corpus, read_muse_retained
from parties.language.texts.own_texts import read_own_texts
from parties.language.texts.partition import CorpusSizes, TextShare, partition_rows
from parties.language.texts.records import (
    Continuation,
    Passage,
    QuestionAnswer,
    TextRecord,
    record_digest,
)
from parties.language.texts.tofu import RETAIN_SPLIT, read_tofu_split


@dataclass(frozen=True, slots=True, repr=False)
class TextCorpus:
    """Texts of a client or of all simulated clients; ``repr()`` does not show the texts."""

    records: Sequence[TextRecord]  # unflagged texts, followed by flagged texts
    flagged: int  # number of flagged texts
    places: Sequence[int] = ()  # position of each text in its file; empty: as in ``records``

    @property
    def sizes(self) -> CorpusSizes:
        """The number of unflagged texts, ``retain``, and of flagged texts, ``forget``."""
        return CorpusSizes(len(self.records) - self.flagged, self.flagged)


@dataclass(frozen=True, slots=True)
class OwnText:
    """One text of a client."""

    number: int  # position in the client's file of texts, from 0; else in the corpus
    id: bytes  # content hash, 64 hexadecimal digits
    trained: bool  # whether models are trained on it; otherwise it is held out


def read_text_corpus(settings: LanguageClientSettings, folder: Path) -> TextCorpus:
    """Read the texts that the party settings name.

    Raises:
        DataError: a file is missing or has a wrong format.
    """
    data = settings.data
    match data:
        case TofuTexts():
            retain = read_tofu_split(folder / data.path, RETAIN_SPLIT[data.forget])[: data.retain]
            forget = read_tofu_split(folder / data.path, data.forget)
            return TextCorpus((*retain, *forget), len(forget))
        case MuseTexts():
            corpus = folder / data.path / data.corpus
            flagged = read_muse_corpus(corpus, "forget")
            return TextCorpus((*read_muse_retained(corpus), *flagged), len(flagged))
        case JsonlTexts():
            return _own_corpus(data, folder)


def _own_corpus(data: JsonlTexts, folder: Path) -> TextCorpus:
    records = list(read_own_texts(folder, data.path))
    if data.forget is None:
        return TextCorpus(records, 0)
    digests = {record_digest(each) for each in read_own_texts(folder, data.forget)}
    known = [record_digest(each) for each in records]
    if not digests <= {*known}:
        raise DataError(
            f"{data.forget} contains rows that are not in {data.path}",
            f"copy the rows to forget from {data.path}",
        )
    places = sorted(range(len(known)), key=lambda at: known[at] in digests)  # flagged texts last
    flagged = sum(each in digests for each in known)
    return TextCorpus([records[at] for at in places], flagged, places)


def partition_corpus(agreement: LanguageAgreement, corpus: TextCorpus) -> dict[str, TextShare]:
    """Return, for each client, the row numbers of its texts in the corpus.

    If every client has its own corpus, a client's texts are all rows of its corpus.
    """
    names, plan = agreement.spokes, agreement.partition
    match plan:
        case DealtTexts():
            parts = partition_rows(plan.kind, corpus.sizes, len(names), agreement.seed)
        case TextsAtOne():
            holders = [names.index(plan.client)]
            parts = partition_rows(plan.kind, corpus.sizes, len(names), agreement.seed, holders)
        case _:
            rows = np.arange(corpus.sizes.rows)
            parts = (TextShare(rows, rows >= corpus.sizes.retain),) * len(names)
    return dict(zip(names, parts, strict=True))


def read_public_texts(settings: LanguageClientSettings, folder: Path) -> list[TextRecord]:
    """Read the public texts that the party settings name; an empty list if they name none.

    Raises:
        DataError: the file is missing or has a wrong format.
    """
    if settings.public is None:
        return []
    return list(read_own_texts(folder, settings.public.path))


def build_text_dataset(
    agreement: LanguageAgreement,
    client: str,
    corpus: TextCorpus,
    share: TextShare,
    encoder: TextEncoder,
    public: list[EncodedText],
) -> TextDataset:
    """Encode one client's texts, and hold some unflagged texts out from training."""
    held = _held_out(agreement, client, corpus, share)
    trained = np.setdiff1d(np.arange(len(share.rows)), held)
    flags: NDArray[np.bool_] = share.forget[trained]
    texts = [corpus.records[at] for at in share.rows]
    rows, ids, flags = _training_rows([texts[at] for at in trained], flags, encoder)
    # Held-out texts are validation and test texts by turns. A client with a single held-out text
    # uses it for one of both; every second such client has a test text, for attacks.
    alone = agreement.partition.client if isinstance(agreement.partition, TextsAtOne) else None
    names = [each for each in agreement.spokes if each != alone]
    first = names.index(client) % 2 if len(held) == 1 and client != alone else 0
    validation, test = (
        encode_records([texts[at] for at in held[begin::2]], encoder)
        for begin in (first, 1 - first)
    )
    return TextDataset(rows, flags, test, validation, public, ids=ids)


def own_texts(agreement: LanguageAgreement, client: str, corpus: TextCorpus) -> list[OwnText]:
    """Return the texts of a client, by number."""
    share = partition_corpus(agreement, corpus)[client]
    held = set(_held_out(agreement, client, corpus, share).tolist())
    places = corpus.places or range(len(corpus.records))
    return [
        OwnText(places[row], text_id(corpus.records[row]), at not in held)
        for at, row in enumerate(share.rows.tolist())
    ]


def text_id(record: TextRecord) -> bytes:
    """Return the content hash of a text as 64 hexadecimal digits: the ID of a text in a request."""
    return record_digest(record).hex().encode()


def _held_out(
    agreement: LanguageAgreement, client: str, corpus: TextCorpus, share: TextShare
) -> Index:
    """Ascending positions in the share of a client's texts that no model is trained on, [held].

    The content of a text in a client's own file decides whether the text is held out: it is the
    same for texts with the same content, and does not change with the other texts of the file. Only
    if no text is drawn, the one with the smallest draw is held out.
    """
    key = derive_key(agreement.seed, "held", client)
    if isinstance(agreement.partition, DealtTexts | TextsAtOne):
        order = permutation(key, len(share.rows))
        unflagged = order[~share.forget[order]]
        return np.sort(unflagged[: held_out_count(agreement.test_share, len(unflagged))])
    unflagged = np.flatnonzero(~share.forget)
    drawn = id_fractions(key, [text_id(corpus.records[share.rows[at]]) for at in unflagged])
    least, most = drawn.min(initial=1.0), drawn.max(initial=0.0)
    # At least one text is held out, if there are two with different contents, and at least one not.
    chosen = (drawn < max(agreement.test_share, np.nextafter(least, 1.0))) & (drawn < most)
    held: Index = unflagged[chosen & (agreement.test_share > 0)]
    return held


def _training_rows(
    texts: Sequence[TextRecord], flags: NDArray[np.bool_], encoder: TextEncoder
) -> tuple[list[EncodedText], list[bytes], NDArray[np.bool_]]:
    """Encoded texts with IDs and flags; all windows of a long text have its ID and flag."""
    rows, ids, flagged = list[EncodedText](), list[bytes](), list[bool]()
    for flag in (False, True):
        some = [text for text, flag_of in zip(texts, flags, strict=True) if flag_of == flag]
        found = encode_records(some, encoder)
        rows += found
        ids += _row_ids(some, found)
        flagged += [flag] * len(found)
    return rows, ids, np.array(flagged, np.bool_)


def _row_ids(texts: Sequence[TextRecord], rows: Sequence[EncodedText]) -> list[bytes]:
    """The ID of the text of each row that ``encode_records`` made of ``texts``.

    Every text is one row, except for a passage: its first window, and no other, begins with a token
    that has a label.
    """
    kinds = (QuestionAnswer, Continuation, Passage)
    ids = [text_id(each) for kind in kinds for each in texts if isinstance(each, kind)]
    alone = sum(not isinstance(each, Passage) for each in texts)
    found, at = ids[:alone], alone - 1
    for row in rows[alone:]:
        at += row.start == 0
        found.append(ids[at])
    return found


def encode_records(texts: Sequence[TextRecord], encoder: TextEncoder) -> list[EncodedText]:
    """Encode text records in this order: questions, continuations, windows of passages."""
    pairs = [(each.question, each.answer) for each in texts if isinstance(each, QuestionAnswer)]
    passages = [each.text for each in texts if isinstance(each, Passage)]
    begun = [(e.prompt, e.continuation) for e in texts if isinstance(e, Continuation)]
    found = encoder.answers(pairs) if pairs else []
    found += encoder.continuations(begun) if begun else []
    return found + (encoder.windows(passages) if passages else [])


def requested_text_rows(
    agreement: LanguageAgreement,
    request: TextRequest,
    client: str,
    dataset: TextDataset,
    listed: Container[bytes] | None = None,
) -> Index:
    """Return the numbers, ``[rows]``, of those training texts of a client that a request names.

    ``listed`` are the hashes of the texts, if they are known; None selects them by flag and
    fraction.
    """
    if request.client not in (None, client):
        return np.empty(0, np.int64)
    if listed is not None or request.has_list:
        return indices_of(dataset.ids, () if listed is None else listed)
    count = len(dataset.rows)
    found = np.flatnonzero(dataset.flagged) if request.rows == "flagged" else np.arange(count)
    secret = derive_key(agreement.seed, "request", request.name, request.seed, client)
    order = permutation(secret, len(found))
    return np.sort(found[order[: round(request.fraction * len(found))]])
