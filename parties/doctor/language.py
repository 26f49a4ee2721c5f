"""Checks of an LLM run: base model, texts, benchmark and memory."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from configs.errors import ConfigError
from configs.language_party_settings import JsonlTexts, LanguageClientSettings, ModelPartySettings
from models.language.folder import examine_model_folder
from models.language.memory import available_memory
from parties.common.errors import DataError, PartyError, PolicyError
from parties.doctor.check import ExaminedLanguageParty, Finding, fail, fail_with, ok, warning
from parties.doctor.federated import examine_federated
from parties.doctor.folders import path_exists
from parties.language.client_data import partition_corpus, read_text_corpus
from parties.language.engine.errors import translate_model_errors
from parties.language.evaluation.benchmarks.benchmark import benchmark_files
from parties.language.memory_check import LESS_MEMORY, WORK_OF, estimate_party_memory, memory_roles
from parties.language.texts.own_texts import read_own_texts


def examine_language(party: ExaminedLanguageParty, *, whole_data: bool) -> Iterator[Finding]:
    """Yield the results of all checks; if ``whole_data``, all weights and texts are read."""
    own = (
        partial(_check_base, party, whole=whole_data),
        partial(_check_texts, party, whole=whole_data),
    )
    yield from examine_federated(party, party.config.agreement, own, partial(_check_memory, party))


def _settings(party: ExaminedLanguageParty) -> ModelPartySettings:
    if not isinstance(party.settings, ModelPartySettings):
        raise TypeError(f"settings of the type {type(party.settings).__name__} name no base model")
    return party.settings


def _base(party: ExaminedLanguageParty) -> Path:
    return party.folder / _settings(party).base


def _check_base(party: ExaminedLanguageParty, *, whole: bool) -> Iterator[Finding]:
    """Check that the base model can be read; with ``whole`` also its digest."""
    plan, base = party.config.agreement.model, _base(party)
    try:
        with translate_model_errors():
            found = examine_model_folder(base)
            digest = found.digest() if whole else None
    except PartyError as error:
        yield fail("base model", error)
        return
    kind = found.config.get("model_type", "a model")
    if digest is not None and plan.digest not in (None, digest):
        yield fail_with(
            "base model",
            f"{base} has the digest {digest[:12]}…, but the agreement has {plan.digest[:12]}…",
            "use the same base model at all parties: copy the folder of another party",
            PolicyError,
        )
    else:
        agreed = digest is not None and plan.digest is not None
        yield ok("base model", f"{base}: {kind}" + (", the digest is right" if agreed else ""))


def _check_texts(party: ExaminedLanguageParty, *, whole: bool) -> Iterator[Finding]:
    settings = party.settings
    if not isinstance(settings, LanguageClientSettings):
        yield from _check_benchmark(party)
        return
    data, files = settings.data, [settings.data.path]
    if isinstance(data, JsonlTexts) and data.forget is not None:
        files.append(data.forget)
    files += [] if settings.public is None else [settings.public.path]
    sound = True
    for path in files:
        for found in _there("texts", party.folder / path):
            sound = sound and not found.code
            yield found
    if whole and sound:
        yield from _read(party, settings)


def _check_benchmark(party: ExaminedLanguageParty) -> Iterator[Finding]:
    """Check that the server has the benchmark's files, which are its only texts."""
    agreement, settings = party.config.agreement, party.settings
    if agreement.evaluation.benchmark == "none":
        yield ok("texts", "the server needs no texts")
        return
    try:
        files = benchmark_files(agreement, settings, party.name)
    except ConfigError as error:
        yield fail("benchmark", error)
    else:
        yield from _there("benchmark", party.folder / files.path)


def _there(check: str, path: Path) -> Iterator[Finding]:
    if path_exists(path):
        yield ok(check, str(path))
    else:
        yield fail_with(check, f"{path} does not exist", "give its folder with --data", DataError)


def _read(party: ExaminedLanguageParty, settings: LanguageClientSettings) -> Iterator[Finding]:
    """Read and partition all texts as a run does; do not tokenise them."""
    agreement, name = party.config.agreement, party.name
    try:
        found = partition_corpus(agreement, read_text_corpus(settings, party.folder))[name]
        public = (
            0
            if settings.public is None
            else len(read_own_texts(party.folder, settings.public.path))
        )
    except PartyError as error:
        yield fail("all texts", error)
        return
    flagged = int(found.forget.sum())
    message = f"{len(found.rows)} texts of {name}, {flagged} of them flagged for unlearning"
    yield ok("all texts", f"{message}; {public} public texts")


def _check_memory(party: ExaminedLanguageParty) -> Iterator[Finding]:
    agreement, available = party.config.agreement, available_memory(_settings(party).device)
    for role in memory_roles(agreement, server=party.active):
        try:
            found = estimate_party_memory(agreement, _base(party), role)
        except ConfigError as error:
            yield fail("settings", error)
            return
        except PartyError:
            return  # a finding of the check "base model"
        message = found.sentence(available, WORK_OF[role])
        if available is not None and found.total > available:
            yield warning("memory", message, LESS_MEMORY[role])
        else:
            yield ok("memory", message)
