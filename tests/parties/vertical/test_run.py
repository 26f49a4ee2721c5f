"""Whole runs: what each party stores, what stops a run, and equal results for equal agreements."""

import json
from hashlib import sha256
from io import StringIO
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fixed_threshold import run_fedora
from rich.console import Console
from safetensors.torch import load_file
from three_parties import (
    LONG,
    PAPER,
    PARTIES,
    agreement,
    certify,
    forget_some,
    open_split_model,
    party,
    start_training,
    write_data,
)
from whole_run import run

from parties.common.errors import Diverged, PolicyError
from parties.common.json_files import canonical_json
from parties.report.pages.scientist import report_page
from parties.report.terminal import report_tables
from parties.requests.driver import carry_out
from parties.session.memory_port import MemoryPort
from parties.vertical.active import run_active
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.fine_tune import FineTuneMethod
from parties.vertical.methods.gradient_ascent import GradientAscentMethod
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.passive import run_passive
from protocol import vfl_pb2
from protocol.errors import Aborted, PeerSilent, RemoteProtocolError

FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)


def test_each_party_stores_only_its_own_local_model(tmp_path: Path) -> None:
    run(tmp_path, unlearn=FORGET)
    for name in ("left", "right"):
        folder = tmp_path / "runs" / "trio" / name
        assert sorted(path.name for path in folder.iterdir()) == [
            ".keys.lock", "incarnation", "keys.json", "manifest.json", "model.safetensors",
            "models", "preprocessing.json", "rows.safetensors", "traffic.json",
        ]  # fmt: skip
        manifest = json.loads((folder / "manifest.json").read_text())
        for file, digest in manifest["sha256"].items():
            assert sha256((folder / file).read_bytes()).hexdigest() == digest


def test_forgotten_rows_are_removed_from_every_row_map(tmp_path: Path) -> None:
    metrics = run(tmp_path, unlearn=FORGET)
    forgotten = metrics["requests"][0]["rows"]["forgotten"]
    maps = [
        load_file(tmp_path / "runs" / "trio" / name / "rows.safetensors")["rows"]
        for name in PARTIES
    ]
    erased = [np.flatnonzero(rows.numpy() == -1) for rows in maps]
    assert [len(rows) for rows in erased] == [forgotten] * 3
    assert (erased[0] == erased[1]).all()
    assert (erased[0] == erased[2]).all()


def test_equal_agreements_give_equal_runs(tmp_path: Path) -> None:
    runs = [run(folder, unlearn=FORGET) for folder in new_folders(tmp_path, 2)]
    models = [
        (folder / "runs" / "trio" / "left" / "model.safetensors").read_bytes()
        for folder in (tmp_path / "0", tmp_path / "1")
    ]
    assert models[0] == models[1]
    for metrics in runs:
        for method in metrics["requests"][0]["methods"]:
            method["cost"] = {}
    assert runs[0]["requests"] == runs[1]["requests"]
    assert runs[0]["training"] == runs[1]["training"]


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    one, two = (
        run(folder, seed=seed)["training"]["steps"][-1]["loss"]
        for seed, folder in enumerate(new_folders(tmp_path, 2))
    )
    assert one != two


def new_folders(folder: Path, count: int) -> list[Path]:
    folders = [folder / str(number) for number in range(count)]
    for each in folders:
        each.mkdir()
    return folders


def test_early_stopping_ends_at_the_best_epoch(tmp_path: Path) -> None:
    training = {"learning_rate": 0.2, "batch": 16, "epochs": 30, "patience": 2}
    found = run(tmp_path, training=training)["training"]
    best = found["kept"]
    assert len(found["steps"]) == best + 2 < 30
    losses = [step["validation_loss"] for step in found["steps"]]
    assert losses[best - 1] == min(losses)


def test_early_stopping_on_the_auc_ends_at_the_epoch_with_the_highest(tmp_path: Path) -> None:
    training = {"learning_rate": 0.2, "batch": 16, "epochs": 30, "patience": 2, "monitor": "auc"}
    found = run(tmp_path, training=training)["training"]
    best, areas = found["kept"], [step["validation_auc"] for step in found["steps"]]
    assert len(areas) == best + 2 < 30
    assert areas[best - 1] == max(areas)


def test_an_intersection_that_is_too_small_stops_every_party(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"fewer common rows than psi\.minimum = 1000"):
        run(tmp_path, psi={"minimum": 1000})


def test_an_empty_intersection_stops_every_party(tmp_path: Path) -> None:
    def rename(folder: Path) -> None:
        text = (folder / "left.csv").read_text()
        (folder / "left.csv").write_text(text.replace("\np", "\nq"))

    with pytest.raises(PolicyError, match="no common rows"):
        run(tmp_path, before=rename)


def test_passive_parties_receive_the_reason_of_the_stop(tmp_path: Path) -> None:
    write_data(tmp_path)
    certify(tmp_path)
    plan, port, errors = agreement(psi={"minimum": 1000}), MemoryPort(), {}

    def follow(name: str) -> None:
        with pytest.raises(Aborted) as raised:
            run_passive(party(tmp_path, name, plan, []), lambda: port.connect(name))
        errors[name] = raised.value

    threads = [Thread(target=follow, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    with pytest.raises(PolicyError):
        run_active(party(tmp_path, "hub", plan, []), port, lambda metrics: None)
    for thread in threads:
        thread.join(10)
    assert all("fewer common rows" in str(error) for error in errors.values())
    assert all(error.code == "policy" for error in errors.values())


def test_silent_party_is_named_with_task_and_step(tmp_path: Path) -> None:
    limits = {"join_seconds": 20.0, "step_seconds": 0.5, "idle_seconds": 20.0}
    with open_split_model(tmp_path, limits=limits) as (split_model, sessions):
        start_training(split_model, "original")
        stuck, over = sessions["right"], Event()
        embed, count = stuck._embed, SimpleNamespace(requests=0)

        def stall(ask: vfl_pb2.BatchRequest) -> None:
            count.requests += 1
            if count.requests == 4:
                over.wait(10)
            embed(ask)

        stuck._embed = stall  # type: ignore[method-assign]
        with pytest.raises(
            PeerSilent,
            match=r"right: the peer sent no message for 0.5 s \(train, epoch 1, step 3\)",
        ):
            train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 1, 16))
        over.set()


def test_non_finite_embeddings_stop_training_and_name_the_party(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, sessions):
        start_training(split_model, "original")
        poison(sessions["left"])
        with pytest.raises(RemoteProtocolError, match="the embeddings of left are not finite"):
            train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 1, 16))


def test_fedora_rolls_back_when_a_party_diverges(tmp_path: Path) -> None:
    with open_split_model(tmp_path, unlearning={"fedora": PAPER}) as (split_model, sessions):
        forget_some(split_model)
        start_training(split_model, "original")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        before = split_model.logits(vfl_pb2.VALIDATION)
        restore = split_model.restore_copy

        def restore_then_poison(slot: str, stream: str, task: vfl_pb2.Task, *rule) -> None:
            restore(slot, stream, task, *rule)
            if rule:  # for the steps of FedORA, and not for the rollback
                poison(sessions["left"])

        split_model.restore_copy = restore_then_poison  # type: ignore[method-assign]
        result = run_fedora(split_model, 1.0, 0.0)
        assert result.stopped == "not finite"
        assert torch.equal(split_model.logits(vfl_pb2.VALIDATION), before)


def poison(session) -> None:
    with torch.no_grad():
        next(session.state.local_model.model.network.parameters()).fill_(torch.nan)


def test_fedora_rolls_back_when_it_costs_too_much_accuracy(tmp_path: Path) -> None:
    settings = {"check_every": 1, "utility_loss": 1e-6, "primal_step": 1.0}
    with open_split_model(tmp_path, unlearning={"fedora": PAPER | settings}, training=LONG) as (
        split_model,
        _,
    ):
        forget_some(split_model)
        start_training(split_model, "original")
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 5, 16))
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        before = split_model.logits(vfl_pb2.VALIDATION)
        result = run_fedora(split_model, 2.19, 1.0)
        assert result.stopped == "utility lost"
        assert torch.equal(split_model.logits(vfl_pb2.VALIDATION), before)


@pytest.mark.parametrize("settings", [{"dual": "literal"}, {"retain_share": 0.0}])
def test_fedora_variants_run(tmp_path: Path, settings: dict) -> None:
    plan = PAPER | {"iterations": 3, "check_every": 9, "utility_loss": 1.0, **settings}
    with open_split_model(tmp_path, unlearning={"fedora": plan}) as (split_model, _):
        forget_some(split_model)
        start_training(split_model, "original")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        before = split_model.logits(vfl_pb2.FORGOTTEN)
        result = run_fedora(split_model, 2.19, 0.0)
        assert len(result.iterations) == 3
        assert not torch.equal(split_model.logits(vfl_pb2.FORGOTTEN), before)


@pytest.mark.parametrize("policy", ["uniform", "heldout", "proxy"])
def test_every_threshold_policy_gives_a_reachable_score(tmp_path: Path, policy: str) -> None:
    threshold = run(tmp_path, unlearn=FORGET, fedora={"policy": policy})["requests"][0]["threshold"]
    assert threshold["policy"] == policy
    assert -2.2 < threshold["gamma"] < 2.2  # ω log C = 2 log 3


def test_bytes_of_one_fedora_iteration_equal_the_formula(tmp_path: Path) -> None:
    """Payload per passive party: 2 · itemsize · width · (n_u + R · B), and two evaluations."""
    plan = {"iterations": 1, "check_every": 9, "utility_loss": 1.0, "batch": 16}
    plan = PAPER | {"retain_share": 0.05, **plan}
    with open_split_model(tmp_path, unlearning={"fedora": plan}) as (split_model, _):
        forget_some(split_model)
        start_training(split_model, "original")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        before = unlearning_payload(split_model)
        run_fedora(split_model, 1.0, 0.0)
        transferred = unlearning_payload(split_model) - before
        steps = max(1, -(-round(0.05 * len(split_model.rows.retain)) // 16))
        widths, forgotten = {"left": 4, "right": 2}, len(split_model.rows.forgotten)
        # FedORA (paper 004) Table II, in bytes: embeddings and their gradients of n_u + R B rows.
        iteration = sum(2 * 8 * width * (forgotten + steps * 16) for width in widths.values())
        validation = 8 * (4 + 2) * len(split_model.rows.validation)  # embeddings without gradients
        assert transferred == iteration + 2 * validation  # of the original and of the last model


def unlearning_payload(split_model) -> int:
    phases = split_model.party.traffic.by_phase()
    return next(each["payload"] for each in phases if each["phase"] == "unlearning")


def test_diverged_training_is_reported(tmp_path: Path) -> None:
    training = {"optimiser": "sgd", "learning_rate": 1e30, "batch": 16, "epochs": 3}
    with pytest.raises((Diverged, RemoteProtocolError), match=r"finite|NaN"):
        run(tmp_path, training=training)


def test_gradient_ascent_is_rolled_back_when_a_party_diverges(tmp_path: Path) -> None:
    plan = {"gradient_ascent": {"steps": 3}}
    with open_split_model(tmp_path, unlearning=plan, training=LONG) as (split_model, sessions):
        forget_some(split_model)
        start_training(split_model, "original")
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 5, 16))
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        before = split_model.logits(vfl_pb2.VALIDATION)
        climb = split_model.ascent_step

        def ascend_then_poison(step_size: float, task: vfl_pb2.Task) -> None:
            climb(step_size, task)
            poison(sessions["left"])

        split_model.ascent_step = ascend_then_poison  # type: ignore[method-assign]
        result = carry_out(GradientAscentMethod(), NetworkRun(split_model))
        assert len(result.figures["losses"]) == 1
        assert result.stopped == "not finite"
        assert torch.equal(split_model.logits(vfl_pb2.VALIDATION), before)


def test_non_finite_loss_is_reported_with_its_place(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, _):
        start_training(split_model, "original")
        with torch.no_grad():
            next(split_model.local_model.model.network.top.parameters()).fill_(torch.nan)
        with pytest.raises(Diverged, match=r"train, epoch 1, step 0"):
            train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 1, 16))


@pytest.mark.parametrize("name", ["hub", "left"])
def test_divergence_in_the_last_sub_step_is_detected_before_the_model_is_kept(
    tmp_path: Path, name: str
) -> None:
    plan = PAPER | {"iterations": 3, "check_every": 1, "utility_loss": 1.0}
    with open_split_model(tmp_path, unlearning={"fedora": plan}) as (split_model, sessions):
        forget_some(split_model)
        start_training(split_model, "original")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        before = split_model.logits(vfl_pb2.VALIDATION)
        sweep, half = (
            split_model.loop.run_batches,
            {"hub": split_model.local_model, "left": sessions["left"].state.local_model}[name],
        )

        def sweep_then_poison(*arguments) -> None:
            sweep(*arguments)
            split_model.report_norms(
                vfl_pb2.UNLEARN
            )  # a round trip: the last sub-step is done everywhere
            with torch.no_grad():
                next(half.model.network.parameters()).fill_(torch.nan)

        split_model.loop.run_batches = sweep_then_poison  # type: ignore[method-assign]
        result = run_fedora(split_model, 1.0, 0.0)
        assert result.stopped == "not finite"
        assert torch.equal(split_model.logits(vfl_pb2.VALIDATION), before)


def test_too_large_step_is_rolled_back_without_ending_the_run(tmp_path: Path) -> None:
    plan = {"policy": "uniform", "primal_step": 30.0, "adaptive": False, "iterations": 8}
    request = run(tmp_path, unlearn=FORGET, fedora=PAPER | plan)["requests"][0]
    assert request["methods"][1]["stopped"] in ("not finite", "utility lost")
    original, fedora_model = request["methods"][:2]
    assert fedora_model["accuracy"]["test"] == original["accuracy"]["test"]


def test_method_after_a_divergence_starts_from_the_original(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, _):
        forget_some(split_model)
        start_training(split_model, "original")
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        with torch.no_grad():
            next(split_model.local_model.model.network.top.parameters()).fill_(torch.nan)
        split_model.logits(vfl_pb2.VALIDATION)
        assert split_model.diverged
        for method in (GradientAscentMethod(), FineTuneMethod()):
            result = carry_out(method, NetworkRun(split_model))
            assert result.stopped is None
            assert not split_model.diverged
        assert all(np.isfinite(each["loss"]) for each in result.figures["epochs"])


def test_diverged_reference_falls_back_to_heldout(tmp_path: Path) -> None:
    plan = {"policy": "proxy", "reference_learning_rate": 1e30}
    request = run(tmp_path, unlearn=FORGET, fedora=plan)["requests"][0]
    assert request["threshold"]["policy"] == "heldout"


@pytest.mark.parametrize(
    "settings", [{"dual": "literal"}, {"retain_share": 0.0}, {"adaptive": None}]
)
def test_every_form_of_fedora_has_a_report(tmp_path: Path, settings: dict) -> None:
    metrics = run(tmp_path, unlearn=FORGET, fedora=settings)
    written = json.loads(canonical_json(metrics))
    shown = Console(file=StringIO(), width=100)
    shown.print(report_tables(written))
    assert "FedORA" in report_page(written)
    assert "FedORA" in shown.file.getvalue()
