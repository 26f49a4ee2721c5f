"""Requests of a client for the texts of a list, by number and by content hash."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner

from configs.language import LanguageAgreement
from parties.cli.main import app
from parties.cli.modes import read_runnable
from parties.horizontal.client import _store_of
from parties.horizontal.local.rows import indices_of
from parties.horizontal.service.kept_model import federated_models
from parties.language.client_data import (
    TextCorpus,
    build_text_dataset,
    own_texts,
    partition_corpus,
    requested_text_rows,
    text_id,
)
from parties.language.setup import own_text_rows, set_up_language_party
from parties.language.texts.encoding import build_encoder
from parties.language.texts.records import Passage, QuestionAnswer, TextRecord
from parties.language.texts.templates import PlainTemplate
from parties.requests.events import EventKind, RequestedBody
from parties.requests.subjects import openings
from parties.session.setup import StartOptions
from tests.parties.client_federation import ClientFederation
from tests.parties.language.ferries import facts, json_lines
from tests.parties.language.kept_ferries import write_kept_ferries

HALF = 'unlearn=[{name="leaver", client="pier", fraction=0.5}]'
ALONE = ("unlearning.compare=[]", "unlearning.retrains=0")


def own_hashes(federation: ClientFederation) -> dict[int, str]:
    """Hash of each text of pier, by number, as the command prints them; without held-out texts."""
    words = ["language", "hashes", str(federation.config), "--party", "pier", "--format", "json"]
    found = CliRunner().invoke(app, words, env={"VFL_DATA": None}, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    texts = [json.loads(line) for line in found.output.splitlines()]
    return {each["number"]: each["hash"] for each in texts if each["trained"]}


def half_of_pier(federation: ClientFederation) -> list[str]:
    """The hashes of the texts that the request ``HALF`` of an agreement samples."""
    config = read_runnable(federation.config, [HALF], "pier")
    options = StartOptions(federation.folder / "elsewhere", None, federation.keys)
    party = set_up_language_party(config, "pier", options, lambda _: None)
    chosen = requested_text_rows(party.agreement, party.agreement.unlearn[0], "pier", party.dataset)
    return [party.dataset.ids[at].decode() for at in chosen]


def mixed(hashes: list[str], known: dict[int, str]) -> list[str]:
    """The same texts, every second one by number."""
    number = {each: str(at) for at, each in known.items()}
    return [number[each] if at % 2 else each.upper() for at, each in enumerate(hashes)]


def the_models(federation: ClientFederation, out: Path) -> list[dict[str, torch.Tensor]]:
    files = [federation.state(name, out) / "model.safetensors" for name in federation.roles]
    return [load_file(path) for path in files if path.exists()]


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.slow
def test_listed_texts_give_the_model_of_the_same_texts_in_the_agreement(tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    (tmp_path / "listed").mkdir()
    federation, out = write_kept_ferries(tmp_path / "later"), tmp_path / "later" / "runs"
    federation.train(out)
    hashes = half_of_pier(federation)
    entries = mixed(hashes, own_hashes(federation))
    printed = federation.ask_list("pier", out, "--texts", entries)
    request = printed["request"]
    shutil.copytree(out, tmp_path / "backup")
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
    assert printed["found"]["aligned"] == len(hashes) == federation.view("quay", out, request).count
    for name in federation.roles:
        (stored,) = federated_models(federation.party(name, out)).files()  # type: ignore[arg-type]
        assert stored.version is not None
        assert (stored.number, stored.version.requests) == (2, (request,))
    same = write_kept_ferries(tmp_path / "listed")
    same.changes = (HALF, *ALONE)
    same.train(tmp_path / "listed" / "runs")
    expected = the_models(same, tmp_path / "listed" / "runs")[0]
    found = the_models(federation, out)
    assert len(found) == len(federation.roles)
    assert all(equal(expected, each) for each in found)
    for name in federation.roles:  # a backup of all parties does the request again
        shutil.rmtree(federation.state(name, out))
        shutil.copytree(federation.state(name, tmp_path / "backup"), federation.state(name, out))
    with federation.serve(out) as service:
        federation.wait_certified(service, request)
    assert all(equal(expected, each) for each in the_models(federation, out))
    _check_texts_stay_forgotten(federation, out, request, hashes)


def _check_texts_stay_forgotten(
    federation: ClientFederation, out: Path, request: str, hashes: list[str]
) -> None:
    """The private record is purged, and the texts get other numbers."""
    federation.command("purge", "pier", out, "--request", request)
    rows = facts()[0::2]
    added = {"question": "Which boat is new?", "answer": "the Gull"}
    path = federation.folder / "pier.jsonl"
    path.write_text(json_lines([added, *rows[::-1]]))
    config = read_runnable(federation.config, [], "pier")
    options = StartOptions(out, None, federation.keys)
    party = set_up_language_party(config, "pier", options, lambda _: None)
    left = _store_of(party)._task.ids
    gone = {each.encode() for each in hashes}
    assert left
    assert gone & {*party.dataset.ids}
    assert not gone & {*left}
    again = federation.ask_list("pier", out, "--texts", hashes)
    assert again["request"] is None


def test_the_events_of_a_list_contain_no_text_and_no_hash(tmp_path: Path) -> None:
    federation, out = write_kept_ferries(tmp_path), tmp_path / "runs"
    known = own_hashes(federation)
    numbers = [*known][:4]
    entries = [str(numbers[0]), known[numbers[1]], known[numbers[0]], "99", "f" * 64, "no hash"]
    printed = federation.ask_list("pier", out, "--texts", entries)
    assert printed["found"] == {
        "aligned": 2, "not_trained": 0, "not_held": 2, "forgotten": 0, "unusable_lines": 1,
        "repeated": 1,
    }  # fmt: skip
    (event,) = [each for each in federation.events("pier", out) if each.kind is EventKind.REQUESTED]
    assert isinstance(event.body, RequestedBody)
    assert (event.body.count, event.body.rows) == (2, None)
    stored = event.encode()
    for path in federation.state("pier", out).iterdir():
        stored += path.read_bytes()
    for each in (known[number] for number in numbers[:2]):
        assert each.encode() not in stored
        assert bytes.fromhex(each) not in stored
    with federation.local("pier", out) as local:
        subjects = local.subjects.of(event.request) or []
    assert len(subjects) == 4
    assert openings(event.request, subjects).root() == event.body.subjects_root
    path = tmp_path / "openings.json"
    federation.command("export", "pier", out, "--request", event.request, "--openings", str(path))
    assert known[numbers[0]] in path.read_text()


def test_other_lists_are_refused(tmp_path: Path) -> None:
    federation = write_kept_ferries(tmp_path)
    words = ["unlearn", "request", str(federation.config), "--party", "pier", "--rows", "list.txt"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2
    assert "--rows does not fit the llm mode, which forgets texts" in " ".join(found.output.split())
    words = ["language", "hashes", str(federation.config), "--party", "server"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 3
    assert "server has no texts" in " ".join(found.output.split())


def test_numbers_are_those_of_the_file_with_flagged_texts(tmp_path: Path) -> None:
    federation = write_kept_ferries(tmp_path)
    rows = facts()[0::2]
    (tmp_path / "gone.jsonl").write_text(json_lines(rows[3:5]))
    text = federation.config.read_text().replace(
        'path = "pier.jsonl"', 'path = "pier.jsonl", forget = "gone.jsonl"'
    )
    federation.config.write_text(text)
    config = read_runnable(federation.config, [], "pier")
    found = own_text_rows(config, "pier", tmp_path).numbers
    assert found == {at: text_id(QuestionAnswer(**each)) for at, each in enumerate(rows)}


def test_every_window_of_a_passage_has_the_hash_of_its_text(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    config = read_runnable(write_kept_ferries(tmp_path).config, [], None)
    agreement = config.agreement.model_copy(update={"test_share": 0.0})
    texts: list[TextRecord] = [
        Passage("A ferry. " * 40),
        QuestionAnswer(question="Who?", answer="Me."),
        Passage("Short."),
        Passage("A ferry. " * 30),
        Passage("Short."),
    ]
    corpus = TextCorpus(texts, 1)
    encoder = build_encoder(tokenizer, PlainTemplate(), 24)
    share = partition_corpus(agreement, corpus)["pier"]
    data = build_text_dataset(agreement, "pier", corpus, share, encoder, [])
    parts = [[texts[1]], [texts[0]], [texts[2]], [texts[3]], [texts[4]]]
    counts = [len(_rows_alone(agreement, each[0], encoder)) for each in parts]
    assert max(counts) > 3
    expected = [
        text_id(each[0]) for each, count in zip(parts, counts, strict=True) for _ in range(count)
    ]
    assert list(data.ids) == expected
    data.forgotten = indices_of(data.ids, {text_id(texts[0]), text_id(texts[2])})
    assert data.purge() == 2
    assert {*data.ids} == {text_id(texts[1]), text_id(texts[3])}
    assert len(data.ids) == len(data.rows) == len(data.flagged)


def _rows_alone(agreement, record, encoder):  # type: ignore[no-untyped-def]
    corpus = TextCorpus([record], 0)
    share = partition_corpus(agreement, corpus)["pier"]
    return build_text_dataset(agreement, "pier", corpus, share, encoder, []).rows


def test_other_texts_of_the_file_do_not_change_which_are_held_out(tmp_path: Path) -> None:
    agreement = read_runnable(write_kept_ferries(tmp_path).config, [], "pier").agreement
    assert isinstance(agreement, LanguageAgreement)
    texts = [QuestionAnswer(question=f"Where is boat {at}?", answer="Away.") for at in range(60)]

    def held_out(*records: TextRecord) -> set[bytes]:
        found = own_texts(agreement, "pier", TextCorpus(records, 0))
        assert len({(each.id, each.trained) for each in found}) == len({e.id for e in found})
        return {each.id for each in found if not each.trained}

    before = held_out(*texts)
    assert 4 < len(before) < 24, "about a fifth"
    left = texts[5:]
    assert held_out(*left[::-1]) == before & {text_id(each) for each in left}, "fewer, reversed"
    assert held_out(*texts, *texts) == before, "each twice"
    later = [QuestionAnswer(question=f"Where is ship {at}?", answer="Here.") for at in range(9)]
    assert held_out(*later, *texts) & {text_id(each) for each in texts} == before, "more"
    for at in range(59):
        assert len(held_out(*texts[at : at + 2])) == 1, "one of two"
    assert held_out(texts[0]) == set()
