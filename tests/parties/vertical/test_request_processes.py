"""Requests to forget with real processes: kills, restarts, predictions, and a plain search.

A sample of what ``python tests/bench requests`` measures.
"""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from plain_search import patterns_of, search, search_persons
from power_loss import ALL, LOSSES, NAMED, RECOVERED, Image, PowerLosses, ask_with_losses
from recorded_disk import may_trace
from request_damage import RequestDamage
from request_federation import RequestFederation, person_id, write_trio
from request_kills import RequestKills
from request_predictions import Answer, Forgotten, Outage, PredictionTrial, TrialPlan, run_trial
from request_series import RequestSeries

KILLS, PAIRS = 12, 3
IMAGES = 8  # of the losses of power


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> RequestKills:
    """A trained federation, and a request that was carried out once without a kill."""
    return RequestKills(tmp_path_factory.mktemp("kills") / "trio")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_request_survives_kills_of_every_party(kills: RequestKills) -> None:
    outcomes = list(kills.run([*kills.single()[:KILLS], *kills.pairs(PAIRS)]))
    assert [each for each in outcomes if each.failures] == []
    assert {name for each in outcomes for name, _ in each.kills} == {"hub", "left", "right"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_correction_of_labels_survives_kills_of_every_party(tmp_path: Path) -> None:
    kills = RequestKills(tmp_path / "trio", corrects=True)
    outcomes = list(kills.run(kills.single()[:KILLS]))
    assert [each for each in outcomes if each.failures] == []
    assert {name for each in outcomes for name, _ in each.kills} == {"hub", "left", "right"}


@pytest.fixture(scope="module")
def recorded(kills: RequestKills, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a life whose calls were recorded."""
    folder = tmp_path_factory.mktemp("power")
    if not may_trace(folder):
        pytest.skip("no strace, or it may not trace a process")
    PowerLosses(kills, folder / "life")
    return folder / "life"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_request_survives_losses_of_power(kills: RequestKills, recorded: Path) -> None:
    losses = PowerLosses(kills, recorded)
    outcomes = list(losses.run(losses.spread()[:IMAGES]))
    assert [each for each in outcomes if each.result != RECOVERED] == []
    assert {each.image.loss for each in outcomes} == {*LOSSES}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("files", [".sealed", "keys.json"])
def test_files_that_were_not_synchronised_are_found(
    kills: RequestKills, recorded: Path, files: str
) -> None:
    """Without ``fsync`` of the files, a loss of power after the life is an error with a name."""
    losses = PowerLosses(kills, recorded, (files,))
    (outcome,) = losses.run([Image(ALL, len(losses.boundaries[ALL]), "content")])
    assert outcome.result == NAMED
    assert all("restore the" in each for each in outcome.notes)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_recorded_request_is_not_lost_after_its_id_was_printed(
    kills: RequestKills, recorded: Path, tmp_path: Path
) -> None:
    found = ask_with_losses(kills, tmp_path)
    assert (found.lost, found.wrong) == ((), ())
    assert found.images > found.present > found.boundaries > 5
    (tmp_path / "fault").mkdir()
    assert ask_with_losses(kills, tmp_path / "fault", ("requests.sqlite",)).lost


@pytest.mark.slow
def test_damaged_records_of_the_journal_are_found(kills: RequestKills) -> None:
    tried, accepted = RequestDamage(kills, "left").file()
    assert tried > 300
    assert accepted == 0


@pytest.mark.slow
def test_search_finds_persons_in_a_version_that_was_not_erased(
    kills: RequestKills, tmp_path: Path
) -> None:
    """The quiet life left nothing; its folder with the keys and the version before is not clean."""
    assert search_persons(kills.quiet, kills.persons) == []
    for old in sorted(kills.trained.glob("*/*/models/*.sealed")):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        shutil.copytree(kills.quiet, tmp_path / "out")
        party = tmp_path / "out" / old.relative_to(kills.trained).parents[1]
        shutil.copy(old, party / "models")
        assert search_persons(tmp_path / "out", kills.persons) == []  # its key is gone
        shutil.copy(old.parents[1] / "keys.json", party)
        found = search_persons(tmp_path / "out", kills.persons)
        assert {line.rpartition(":")[0] for line in found} == {
            str((party / "models" / old.name).relative_to(tmp_path / "out"))
        }


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_requests_follow_each_other_with_restarts_between(tmp_path: Path) -> None:
    write_trio(tmp_path)
    federation = RequestFederation(tmp_path, tmp_path / "trio.toml", ["training.epochs=3"])
    plan = RequestSeries(federation, [5, 8])
    series = plan.run(0, lambda _: None)
    assert plan.other_steps("retrain-local") == {}  # neither a Retrain nor another training
    with pytest.raises(AssertionError, match="no step of fedora"):
        plan.other_steps("fedora")
    assert series.states == ("certified", "certified")
    assert series.methods == ("retrain-local", "retrain-local")
    assert 0 <= series.retrain <= 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_replays_make_the_same_models(tmp_path: Path) -> None:
    write_trio(tmp_path)
    federation = RequestFederation(tmp_path, tmp_path / "trio.toml", ["training.epochs=2"])
    assert RequestSeries(federation, [5, 8]).replays(0, print) == [True, True]
    federation, out = federation.changed("requests.replay_days=30"), tmp_path / "replays"
    request = max(path.stem for path in federation.state("left", out).glob("receipts/0*.json"))
    receipts = federation.receipts(out, request)
    assert federation.replay(out, str(receipts["left"])) == dict.fromkeys(federation.roles, 0)
    state = federation.state("left", out)
    shutil.rmtree(state / "models")  # a party without the version cannot take part
    codes = federation.replay(out, request, seconds=60)
    assert codes["left"] == 8


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_replay_of_a_correction_makes_the_same_models(tmp_path: Path) -> None:
    kills = RequestKills(tmp_path / "trio", corrects=True)
    federation, out = kills.federation.changed("requests.replay_days=30"), tmp_path / "kept"
    shutil.copytree(kills.trained, out)
    with federation.serve(out) as service:
        federation.wait_certified(service, kills.request)
        service.stop()
    assert federation.replay(out, kills.request) == dict.fromkeys(federation.roles, 0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_predictions_are_right_or_unavailable_while_a_request_runs(tmp_path: Path) -> None:
    federation, trained = write_trio(tmp_path), tmp_path / "trained"
    federation.train(trained)
    plan = TrialPlan(seconds=20, rate=10, requests=1, restarts=1)
    found, _ = run_trial(federation, trained, plan, print)
    assert found["right"] > 50
    assert found["withheld"] > 0
    assert not {each for each in found if each.startswith(("wrong", "failed"))}, found


def test_search_finds_each_form_of_a_person(tmp_path: Path) -> None:
    person, cells = person_id(7), ["0.5", "1.25", "-3"]
    for number, (form, pattern) in enumerate(patterns_of(person, cells).items()):
        path = tmp_path / str(number) / "file.bin"
        path.parent.mkdir()
        path.write_bytes(b"before" + pattern + b"after")
        assert search(path.parent, patterns_of(person, cells)) == [f"file.bin: {form}"]
        assert search(path.parent, patterns_of(person_id(8), ["1", "2", "3"])) == []


def trial() -> PredictionTrial:
    """Two versions, and one request from 10 s to 20 s; right was down from 30 s to 35 s."""
    one, two = {"a": 0.25, "b": 0.75}, {"a": 0.5, "b": 0.5}
    request = Forgotten(frozenset({"gone"}), 10.0, 11.0, 20.0)
    versions = [{"stays": one, "gone": one}, {"stays": two}]
    return PredictionTrial(versions, [request], [Outage("right", 30.0, 35.0)], "hub")


def predicted(name: str, at: float, a: float) -> Answer:
    """An answer with the probabilities a and 1 - a."""
    found = {"id": name, "probabilities": {"a": a, "b": 1 - a}}
    return Answer(name, at, at + 0.1, 200, {"predictions": [found]})


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (predicted("stays", 5, 0.25), "right"),
        (predicted("stays", 15, 0.25), "right"),
        (predicted("stays", 15, 0.5), "right"),
        (predicted("stays", 25, 0.5), "right"),
        (predicted("stays", 5, 0.5), "wrong"),
        (predicted("stays", 25, 0.25), "wrong"),
        (predicted("gone", 5, 0.25), "right"),
        (predicted("gone", 12, 0.25), "wrong"),
        (Answer("gone", 12, 12, 200, {"predictions": [{"id": "gone"}]}), "withheld"),
        (Answer("stays", 12, 12, 200, {"predictions": [{"id": "stays"}]}), "wrong"),
        (Answer("stays", 12, 12, 503, {"absent": ["hub"]}), "unavailable"),
        (Answer("stays", 31, 31, 503, {"absent": ["right"]}), "unavailable"),
        (Answer("stays", 31, 31, 503, {"absent": ["left"]}), "failed"),
        (Answer("stays", 40, 40, 503, {"absent": ["right"]}), "failed"),
        (Answer("stays", 31, 31, 503, {}), "failed"),
        (Answer("stays", 31, 31, 500, {"error": ""}), "failed"),
        (Answer("stays", 31, 31, 0, {"error": ""}), "failed"),
    ],
)
def test_answers_are_judged_by_the_versions_in_use(answer: Answer, word: str) -> None:
    (found,) = Counter([trial().judge(answer)])
    assert found.split(":")[0].split(" ")[0] == word
