"""The examination of a server or a client of a language model: its base, its texts, its memory."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from configs.errors import ConfigError
from configs.language_seat import JsonlTexts, ModelSeat, TextSeat
from models.language.folder import examine
from models.language.memory import available_memory
from parties.common.errors import DataError, PartyError, PolicyError
from parties.doctor.check import Finding, LanguageExamined, fail, ok, trouble, warning
from parties.doctor.federated import examine_federated
from parties.doctor.folders import is_there
from parties.language.client_data import dealt, read_corpus
from parties.language.engine.errors import told
from parties.language.engine.memory_check import SMALLER, WHAT, needs, roles
from parties.language.evaluation.benchmarks.benchmark import named_files
from parties.language.texts.own import read_own


def examine_language(examined: LanguageExamined, *, whole_data: bool) -> Iterator[Finding]:
    """Everything that can be found out before a run; ``whole_data`` reads weights and texts."""
    own = (
        partial(_check_base, examined, whole=whole_data),
        partial(_check_texts, examined, whole=whole_data),
    )
    yield from examine_federated(
        examined, examined.config.agreement, own, partial(_check_memory, examined)
    )


def _seat(examined: LanguageExamined) -> ModelSeat:
    if not isinstance(examined.seat, ModelSeat):
        raise TypeError(f"{type(examined.seat).__name__} names no base model")
    return examined.seat


def _base(examined: LanguageExamined) -> Path:
    return examined.folder / _seat(examined).base


def _check_base(examined: LanguageExamined, *, whole: bool) -> Iterator[Finding]:
    """The base model's files may be read and, where ``whole``, are those that were agreed on."""
    plan, base = examined.config.agreement.model, _base(examined)
    try:
        with told():
            found = examine(base)
            digest = found.digest() if whole else None
    except PartyError as error:
        yield fail("base model", error)
        return
    kind = found.config.get("model_type", "a model")
    if digest is not None and plan.digest not in (None, digest):
        yield trouble(
            "base model",
            f"{base} has the digest {digest[:12]}…, and the one agreed on {plan.digest[:12]}…",
            "all begin with one model: copy its folder from whoever wrote the agreement",
            PolicyError,
        )
    else:
        agreed = digest is not None and plan.digest is not None
        yield ok("base model", f"{base}: {kind}" + (", as agreed on" if agreed else ""))


def _check_texts(examined: LanguageExamined, *, whole: bool) -> Iterator[Finding]:
    seat = examined.seat
    if not isinstance(seat, TextSeat):
        yield from _check_benchmark(examined)
        return
    data, files = seat.data, [seat.data.path]
    if isinstance(data, JsonlTexts) and data.forget is not None:
        files.append(data.forget)
    files += [] if seat.public is None else [seat.public.path]
    sound = True
    for path in files:
        for found in _there("texts", examined.folder / path):
            sound = sound and not found.code
            yield found
    if whole and sound:
        yield from _read(examined, seat)


def _check_benchmark(examined: LanguageExamined) -> Iterator[Finding]:
    """A server's only texts: the agreed benchmark's files, which its seat names."""
    agreement, seat = examined.config.agreement, examined.seat
    if agreement.evaluation.benchmark == "none":
        yield ok("texts", "a server holds no text")
        return
    try:
        files = named_files(agreement, seat, examined.name)
    except ConfigError as error:
        yield fail("benchmark", error)
    else:
        yield from _there("benchmark", examined.folder / files.path)


def _there(subject: str, path: Path) -> Iterator[Finding]:
    if is_there(path):
        yield ok(subject, str(path))
    else:
        yield trouble(subject, f"{path} is not there", "--data FOLDER says where", DataError)


def _read(examined: LanguageExamined, seat: TextSeat) -> Iterator[Finding]:
    """All texts, read and dealt as a run does it; they are not put into tokens."""
    agreement, name = examined.config.agreement, examined.name
    try:
        found = dealt(agreement, read_corpus(seat, examined.folder))[name]
        public = 0 if seat.public is None else len(read_own(examined.folder, seat.public.path))
    except PartyError as error:
        yield fail("all texts", error)
        return
    flagged = int(found.forget.sum())
    said = f"{len(found.rows)} of {name}, {flagged} of them flagged to be forgotten"
    yield ok("all texts", f"{said}; {public} that all may know")


def _check_memory(examined: LanguageExamined) -> Iterator[Finding]:
    agreement, there = examined.config.agreement, available_memory(_seat(examined).device)
    for role in roles(agreement, server=examined.active):
        try:
            found = needs(agreement, _base(examined), role)
        except ConfigError as error:
            yield fail("settings", error)
            return
        except PartyError:
            return  # said of the base model
        said = found.sentence(there, WHAT[role])
        if there is not None and found.total > there:
            yield warning("memory", said, SMALLER[role])
        else:
            yield ok("memory", said)
