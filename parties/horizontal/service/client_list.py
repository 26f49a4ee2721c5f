"""A client's list of rows to forget: which rows its entries name, and what was found."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from parties.data.id_lists import ListedIds
from parties.horizontal.local.rows import OwnRows
from parties.requests.subjects import (
    ForgottenList,
    Subject,
    SubjectClass,
    classify,
    count_classes,
)


@dataclass(frozen=True, slots=True)
class ClientList:
    """What a client found for the entries of a list; ``repr`` shows no ID.

    Attributes:
        subjects: the named rows, each once.
        count: number of training rows, or of texts, that are to be forgotten.
        found: number of entries by what was found.
        lines: line numbers of the entries that name no row to forget, by what was found.
    """

    subjects: Sequence[Subject]
    count: int
    found: dict[str, int]
    lines: dict[str, list[int]]


def read_client_list(listed: ListedIds, rows: OwnRows, forgotten: ForgottenList) -> ClientList:
    """Return what a client finds for a list.

    Args:
        listed: the list, with the ID of the row that each entry names.
        rows: the rows of the client.
        forgotten: the IDs that were forgotten earlier.
    """
    known = {each: number for each, number in rows.trained.items() if each not in forgotten}
    random = classify(listed, rows.held, known, forgotten, SubjectClass.NOT_TRAINED)
    subjects = [replace(each, salt=forgotten.salt(each.id)) for each in random]
    found = count_classes(subjects, SubjectClass.NOT_COMMON)
    lines: dict[str, list[int]] = {}
    for each, line in zip(subjects, listed.lines, strict=True):
        if each.found is not SubjectClass.ALIGNED:
            lines.setdefault(each.found.value, []).append(line)
    others = {"unusable_lines": listed.unusable, "repeated": listed.repeated}
    found |= {name: len(numbers) for name, numbers in others.items()}
    lines |= {name: [*numbers] for name, numbers in others.items() if numbers}
    return ClientList(subjects, sum(known.get(each.id, 0) for each in subjects), found, lines)
