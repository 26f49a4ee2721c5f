"""Comparison with Retrains of a request after the run of a server: ``requests.audit = "full"``."""

import json
import shutil
from pathlib import Path

import pytest
from client_federation import ClientFederation, ClientKills
from kept_clients import SERVER, KeptClients
from request_federation import RequestFederation

from configs.errors import ConfigError
from parties.cli.modes import read_runnable
from parties.horizontal.service.comparison import retrain_figures, write_retrain_comparison
from parties.horizontal.service.quick_audit import audit_figures
from parties.report.method_names import method_label
from parties.report.record import Figure, MethodRecord, Request, Step, read_record
from parties.requests.events import VerifiedBody
from parties.requests.lifecycle import RequestState
from unlearning.receipts.receipt import AUDIT_LIMITS, AuditLevel

FULL = ('requests.audit="full"', "unlearning.retrains=3", "requests.guard=1.0")
LISTED = ('unlearn=[{name="leaver", client="elm"}]', "unlearning.compare=[]")
RETRAINS = ("retrain", "retrain-2", "retrain-3")


def record(
    name: str, distance: float | None, correct: int, diverged: str | None = None
) -> MethodRecord:
    """The record of a model with 10 test rows of one client."""
    scores = {
        kind: {"ash": {"rows": 10, "correct": correct}}
        for kind in ("validation", "test", "forgotten", "retained")
    }
    values = {"odds_to_retrain": distance, "membership_auc": 0.5}
    figures = tuple(
        Figure(
            name=each,
            value=value,
            ci95=None,
            retrain_mean=None,
            retrain_sd=None,
            gap=None,
            gap_in_sd=None,
            n=10,
            direction="lower",
            status="ok",
            note="",
        )
        for each, value in values.items()
    )
    label = method_label(name)._asdict()
    return MethodRecord(name=name, **label, figures=figures, scores=scores, diverged=diverged)


def request_of(*methods: MethodRecord) -> Request:
    """The record of a request whose chosen method is fine-tuning."""
    return Request(name="r1", methods=methods, chosen="fine-tune")


def test_error_of_the_attack_reaches_the_farther_end_of_its_interval() -> None:
    """The nearer end is cut off at 1: half the width of the interval would be too small."""
    after = record("fine-tune", None, 8)
    figures = tuple(
        each.model_copy(update={"value": 1.0, "ci95": (0.02, 1.0)}) for each in after.figures
    )
    changed = after.model_copy(update={"figures": figures})
    found = audit_figures([record("original", None, 9), changed], "fine-tune")
    assert (found["membership_auc"], found["membership_error"]) == ("1.0000", "0.9800")


def test_the_ratio_is_that_to_the_distance_between_retrains() -> None:
    retrains = [
        record(name, distance, correct)
        for name, distance, correct in zip(RETRAINS, (0.2, 0.2, 0.3), (7, 8, 9), strict=True)
    ]
    original = record("original", 0.5, 5)
    found = retrain_figures(request_of(original, record("fine-tune", 0.35, 5), *retrains))
    # mean 0.7/3; s = 0.0577350 · 2/1; t(2, 97.5 %) = 4.302653; margin = t s √(4/3) = 0.573687
    assert found == {
        "odds_distance": "0.3500",
        "odds_distance_before": "0.5000",
        "odds_distance_retrain": "0.2333",
        "odds_ratio": "1.5000",
        "odds_ratio_limit": f"{1 + 0.573687 / (0.7 / 3):.4f}",
        "membership_auc_retrain": "0.5000",
        "validation_retrain": "0.8000",
        "test_retrain": "0.8000",
        "forgotten_retrain": "0.8000",
        "retrains": "3",
    }


def test_retrains_that_diverged_are_left_out() -> None:
    lost = [record(name, None, 0, diverged="diverged in round 1") for name in RETRAINS]
    chosen = record("fine-tune", 0.35, 5)
    assert retrain_figures(request_of(chosen)) == {}
    assert retrain_figures(request_of(chosen, *lost)) == {}
    two = [record(name, 0.2, 8) for name in RETRAINS[:2]]
    found = retrain_figures(request_of(chosen, *two, lost[2]))
    assert (found["retrains"], found["odds_ratio"]) == ("2", "1.7500")
    assert "odds_ratio_limit" not in found
    equal = [record(name, 0.0, 8) for name in RETRAINS]
    assert "odds_ratio" not in retrain_figures(request_of(chosen, *equal))


def test_the_report_of_a_comparison_has_null_for_a_loss_that_is_not_finite(
    clients: KeptClients,
) -> None:
    party = clients.set_up(SERVER, serves=True)
    steps = (Step(number=0, stage="recover", loss=float("nan")),)
    lost = record("retrain", None, 0, diverged="diverged in round 1")
    others = [record(name, 0.2, 8) for name in ("original", "fine-tune", *RETRAINS[1:])]
    request = request_of(*others, lost.model_copy(update={"steps": steps}))
    task = party.server_task(party)
    page = write_retrain_comparison(party, task, bytes(16), "01", request)
    (written,) = read_record(json.loads(page.with_name("metrics.json").read_text())).requests
    assert written.methods[-1].steps[0].loss is None
    assert "diverged in round 1" in page.read_text()


def phases(clients: KeptClients) -> set[str]:
    """The names of the phases whose progress was shown."""
    return {each["phase"] for each in clients.heard if each["event"] == "progress"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KeptClients:
    """Parties that have trained; tests work on copies."""
    clients = KeptClients(tmp_path_factory.mktemp("trained"), FULL)
    clients.train_here()
    return clients


@pytest.fixture
def clients(trained: KeptClients, tmp_path: Path) -> KeptClients:
    """A copy of the trained parties."""
    return copy_of(trained, tmp_path / "clients")


def copy_of(trained: KeptClients, folder: Path, *changes: str) -> KeptClients:
    """A copy of trained parties, with further changes of the agreement."""
    shutil.copytree(trained.folder, folder)
    return KeptClients(folder, (*trained.changes, *changes))


@pytest.fixture(scope="module")
def compared(
    trained: KeptClients, tmp_path_factory: pytest.TempPathFactory
) -> tuple[KeptClients, str]:
    """Parties that have carried out and compared a request of elm, and the ID of the request."""
    clients = copy_of(trained, tmp_path_factory.mktemp("compared") / "clients")
    request = clients.ask("elm", clients.out)
    clients.carry_out()
    return clients, request


def test_a_comparison_has_the_figures_of_the_request_in_a_run(
    compared: tuple[KeptClients, str], tmp_path: Path
) -> None:
    done, request = compared
    folder = done.state(SERVER, done.out) / "comparisons" / request
    written = read_record(json.loads((folder / "metrics.json").read_text()))
    assert "Retrain" in (folder / "report.html").read_text()
    (later,) = written.requests
    listed = KeptClients(tmp_path, (*FULL, *LISTED))
    (ours,) = read_record(listed.train_here()).requests
    assert [each.name for each in later.methods] == ["original", "fine-tune", *RETRAINS]
    assert [each.figures for each in later.methods] == [each.figures for each in ours.methods]
    (body,) = done.verified(request)
    assert retrain_figures(ours).items() <= body.audit.items()
    assert all(each.scores is None for each in later.methods)  # of rows that are deleted


def test_the_receipt_has_the_results_of_the_comparison(compared: tuple[KeptClients, str]) -> None:
    done, request = compared
    (body,) = done.verified(request)
    assert (body.level, body.audit["retrains"]) == ("full", "3")
    audits = [
        json.loads(each.read_bytes())["audit"] for each in done.receipts(done.out, request).values()
    ]
    assert audits == [audits[0]] * 4
    assert audits[0]["cannot_say"] == AUDIT_LIMITS[AuditLevel.FULL]
    results = {each["metric"]: each for each in audits[0]["results"]}
    ratio = results["log-odds-distance-from-retrains-on-forgotten-rows"]
    assert (ratio["value"], ratio["threshold"], ratio["n"]) == (
        body.audit["odds_ratio"],
        body.audit["odds_ratio_limit"],
        3,
    )
    lost = float(body.audit["test_retrain"]) - float(body.audit["test_after"])
    assert float(results["loss-of-test-accuracy-against-retrains"]["value"]) == pytest.approx(lost)


def test_the_model_is_that_of_a_request_without_a_comparison(
    compared: tuple[KeptClients, str], trained: KeptClients, tmp_path: Path
) -> None:
    plain = copy_of(trained, tmp_path / "plain", 'requests.audit="quick"')
    request = plain.ask("elm", plain.out)
    plain.carry_out()
    (body,) = plain.verified(request)
    assert (body.level, "retrains" in body.audit) == ("quick", False)
    assert plain.digests() == compared[0].digests()
    assert len(plain.digests()) == 1


def test_a_crash_of_the_server_in_a_comparison_loses_nothing(
    compared: tuple[KeptClients, str], clients: KeptClients
) -> None:
    request, lives = clients.ask("elm", clients.out), 0
    while not clients.verified(request):
        clients.carry_out(crash=130)
        lives += 1
    assert lives > 3
    (body,) = clients.verified(request)
    assert body == compared[0].verified(compared[1])[0]
    assert clients.digests() == compared[0].digests()
    assert clients.view(SERVER, clients.out, request).starts == 1


def test_the_audit_can_be_lowered_in_the_middle_of_a_comparison(
    compared: tuple[KeptClients, str], clients: KeptClients
) -> None:
    request = clients.ask("elm", clients.out)
    clients.carry_out(crash=int(compared[0].messages * 0.65))
    quick = clients.with_changes('requests.audit="quick"')
    quick.carry_out()
    (body,) = quick.verified(request)
    assert body.level == "quick"
    assert quick.digests() == compared[0].digests()
    assert quick.view(SERVER, quick.out, request).state is RequestState.CERTIFIED


@pytest.mark.parametrize("part", [0.25, 0.65])  # before and in the Retrains
def test_a_client_that_is_lost_in_a_comparison_is_waited_for(
    compared: tuple[KeptClients, str], trained: KeptClients, tmp_path: Path, part: float
) -> None:
    clients = copy_of(trained, tmp_path / "clients", "limits.rejoin_seconds=0.1")
    request = clients.ask("elm", clients.out)
    clients.carry_out(client_crash=int(compared[0].messages * part / 3))
    (body,) = clients.verified(request)
    assert body == compared[0].verified(compared[1])[0]
    assert clients.digests() == compared[0].digests()


def test_a_request_is_carried_out_without_a_retrain_that_diverges(clients: KeptClients) -> None:
    request = clients.ask("elm", clients.out)
    steep = clients.with_changes(
        "training.learning_rate=1e38", "unlearning.fine_tune.learning_rate=0.1"
    )
    steep.carry_out()
    (body,) = steep.verified(request)
    assert (body.level, "retrains" in body.audit) == ("quick", False)
    assert steep.view(SERVER, steep.out, request).state is RequestState.CERTIFIED
    assert "retrain-3 diverged in round 1" in steep.texts("warning")


def test_a_request_that_a_restored_version_repeats_is_compared_again(
    clients: KeptClients, tmp_path: Path
) -> None:
    request = clients.ask("elm", clients.out)
    state, backup = clients.state(SERVER, clients.out), tmp_path / "backup"
    for name in clients.roles:  # a backup from before would introduce its key again
        with clients.desk(name, clients.out):
            pass
    shutil.copytree(state, backup)
    clients.carry_out()
    (body,), digests = clients.verified(request), clients.digests()
    assert body.version == 2
    shutil.rmtree(state)
    shutil.copytree(backup, state)
    again = clients.with_changes()
    again.carry_out()
    (_, repeated) = again.verified(request)
    assert repeated == body.model_copy(update={"version": 3})
    assert again.digests() == digests


@pytest.mark.parametrize("retrains", [0, 1])
def test_a_comparison_with_fewer_than_two_retrains_is_refused(
    tmp_path: Path, retrains: int
) -> None:
    config = KeptClients(tmp_path).config
    changes = ['requests.audit="full"', "unlearning.compare=[]", f"unlearning.retrains={retrains}"]
    with pytest.raises(ConfigError, match=f"unlearning.retrains is {retrains}"):
        read_runnable(config, changes, None)


def test_a_model_that_loses_too_much_is_refused_before_a_retrain_is_trained(
    tmp_path: Path,
) -> None:
    changes = ("unlearning.fine_tune.learning_rate=5.0", "split.validation=0.3")
    rounds = ("training.rounds=15", "training.learning_rate=0.5")
    clients = KeptClients(tmp_path, (*FULL, *rounds, *changes, "requests.guard=0.05"))
    clients.train_here()
    request = clients.ask("elm", clients.out)
    clients.carry_out()
    assert clients.view(SERVER, clients.out, request).state is RequestState.QUARANTINED
    assert not phases(clients) & {*RETRAINS}


class ComparedKills(ClientKills):
    """The lives of a client's request that is compared with Retrains."""

    def _open(self, folder: Path) -> ClientFederation:
        return ClientFederation(folder, FULL)


@pytest.mark.slow
def test_one_kill_at_some_boundaries_of_a_comparison(tmp_path: Path) -> None:
    kills = ComparedKills(tmp_path / "wood")
    of_server = len(kills.names[SERVER])
    lives = [((SERVER, int(of_server * part)),) for part in (0.5, 0.7, 0.85)]
    lives += [(("oak", int(len(kills.names["oak"]) * part)),) for part in (0.4, 0.6)]
    out = tmp_path / "wood" / "quiet"
    (quiet,) = bodies(kills.federation, out)
    assert quiet.level == "full"
    for life in kills.run(lives):
        assert not life.failures, (life.kills, life.names, life.failures)
        assert bodies(kills.federation, tmp_path / "wood" / "killed") == [quiet]


def bodies(federation: RequestFederation, out: Path) -> list[VerifiedBody]:
    """What the journal of oak says about the models after requests."""
    return [
        each.body for each in federation.events("oak", out) if isinstance(each.body, VerifiedBody)
    ]
