"""Training with a local start, and the exact method retrain-local."""

from collections.abc import Callable
from math import ceil, cos, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import three_parties
import torch
from test_resume import RunResult, prepare, run_parties, without_costs
from three_parties import (
    agreement,
    forget_some,
    inputs,
    networks,
    open_split_model,
    party,
    start_training,
    write_data,
)
from whole_run import FEDORA, QUICK, TRAINING, run

from configs.agreement import BackboneBottom, Bottom, CnnBottom, MlpBottom, PartyEntry
from configs.errors import ConfigError
from configs.local_start import FastStartSettings, LocalStartSettings
from models.codes import patch_codes, svd_codes
from models.initialisation import build_seeded
from parties.common.errors import Diverged
from parties.common.shared_randomness import torch_seed
from parties.requests.driver import carry_out
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.networks import build_bottom
from parties.vertical.engine.optimiser import rising_cosine
from parties.vertical.engine.party_state import LocalFit
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.retrain_local import RetrainLocalMethod
from protocol import vfl_pb2

BATCH, FIT_EPOCHS = 16, 3
QUICK_START = {"fit_epochs": FIT_EPOCHS, "top_epochs": 2}
LEARN = {"batch": BATCH, "learning_rate": 0.01, "epochs": 2}
FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)


def retrain_local(split_model: SplitModel) -> None:
    """Forget some rows by the method."""
    start_training(split_model, ORIGINAL)
    split_model.keep_copy(ORIGINAL, vfl_pb2.TRAIN)
    forget_some(split_model)
    carry_out(RetrainLocalMethod(), NetworkRun(split_model))


def parameters(folder: Path, **plan: Any) -> tuple[dict[str, list[torch.Tensor]], list[str]]:
    """Every party's parameters after the method, and the IDs of the forgotten rows."""
    folder.mkdir(exist_ok=True)
    unlearning = {"retrain_local": QUICK_START | plan}
    with open_split_model(folder, training=LEARN, unlearning=unlearning) as (split_model, sessions):
        retrain_local(split_model)
        ids = split_model.state.features.ids()
        gone = [ids[row].decode() for row in split_model.rows.forgotten]
        found = networks(split_model, sessions)
        copies = {
            name: [p.detach().clone() for p in each.parameters()] for name, each in found.items()
        }
        return copies, gone


def altered(changed: Callable[[str], bool]) -> Callable[..., None]:
    """A function that writes the data with other features and labels in the changed rows."""

    def write(folder: Path, rows: int = 240) -> None:
        write_data(folder, rows)
        for name in three_parties.PARTIES:
            path = folder / f"{name}.csv"
            lines = path.read_text().splitlines()
            for number, line in enumerate(lines[1:], 1):
                key, x, y, z, *label = line.split(",")
                if changed(key):
                    label = ["abc"[("abc".index(each) + 1) % 3] for each in label]
                    lines[number] = ",".join([key, y, z, f"{float(x) - 1:.6f}", *label])
            path.write_text("\n".join(lines) + "\n")

    return write


def equal(first: dict[str, list[torch.Tensor]], second: dict[str, list[torch.Tensor]]) -> list[str]:
    """The parties whose parameters are equal, bit for bit."""
    return [
        name
        for name, each in sorted(first.items())
        if all(torch.equal(a, b) for a, b in zip(each, second[name], strict=True))
    ]


@pytest.mark.parametrize("codes", ["auto", "patches", "projection", "fixed"])
def test_no_bit_depends_on_a_forgotten_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: str
) -> None:
    expected, gone = parameters(tmp_path / "first", codes=codes)
    monkeypatch.setattr(three_parties, "write_data", altered(lambda key: key in gone))
    found, same = parameters(tmp_path / "second", codes=codes)
    assert same == gone
    assert len(gone) == 20
    assert equal(found, expected) == ["hub", "left", "right"]


def test_bottoms_depend_on_remaining_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, gone = parameters(tmp_path / "first")
    monkeypatch.setattr(three_parties, "write_data", altered(lambda key: key not in gone))
    found, _ = parameters(tmp_path / "second")
    assert equal(found, expected) == []


def test_fixed_bottoms_depend_on_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = parameters(tmp_path / "first", codes="fixed")
    monkeypatch.setattr(three_parties, "write_data", altered(lambda _: True))
    found, _ = parameters(tmp_path / "second", codes="fixed")
    assert equal(found, expected) == ["left", "right"]  # the hub has the top model


def test_local_fit_equals_a_computation_of_its_own(tmp_path: Path) -> None:
    """The linear bottom of the party ``right``, with NumPy's SVD and torch's Adam."""
    unlearning = {"retrain_local": QUICK_START | {"joint_epochs": 0.0}}
    with open_split_model(tmp_path, training=LEARN, unlearning=unlearning) as (
        split_model,
        sessions,
    ):
        retrain_local(split_model)
        agreed, rows = split_model.agreement, split_model.rows
        network = networks(split_model, sessions)["right"]
        features = inputs(split_model, sessions)["right"][rows.retain]
    count = len(features)
    centred = (features - features.mean(dim=0)).numpy()
    _, values, directions = np.linalg.svd(centred, full_matrices=False)
    directions = directions[:2].T  # [3, 2]
    directions *= np.sign(directions[np.abs(directions).argmax(axis=0), [0, 1]])
    white = centred @ directions / values[:2] * count**0.5
    seed = torch_seed(agreed.seed, "codes", "retrain-local", "right")
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn((2, 2), dtype=torch.float64, generator=generator)
    q, r = torch.linalg.qr(normal)
    codes = torch.from_numpy(white) @ (q * r.diagonal().sign())

    seed = torch_seed(agreed.seed, "weights", "retrain-local", "right")
    own = build_seeded(seed, lambda: build_bottom(agreed.parties["right"], None, (3,))).double()
    adam = torch.optim.Adam(own.parameters(), lr=2e-3)
    per_epoch = ceil(count / BATCH)
    for step in range(steps := FIT_EPOCHS * per_epoch):
        order = rows.shuffled(vfl_pb2.RETAIN, "retrain-local", 1 + step // per_epoch)
        start = step % per_epoch * BATCH
        batch = np.searchsorted(rows.retain, order[start : start + BATCH])
        late = max(0.0, 2 * step / steps - 1)
        adam.param_groups[0]["lr"] = 2e-3 * (1 + cos(pi * late)) / 2
        adam.zero_grad()
        ((own(features[batch]) - codes[batch]) ** 2).mean().backward()
        adam.step()
    for expected, found in zip(own.parameters(), network.parameters(), strict=True):
        assert torch.allclose(found, expected, atol=1e-10)


def test_rate_of_the_joint_steps_rises_and_falls() -> None:
    factors = [rising_cosine(step, 8, 0.2, 0.5) for step in range(8)]
    expected = [0.2 + 0.8 * (1 + cos(pi * step / 8)) / 2 for step in range(8)]
    for step, rising in enumerate((0.25, 0.5, 0.75)):
        expected[step] *= rising
    assert factors == pytest.approx(expected)
    assert rising_cosine(0, 8, 0.2, 0.0) == 1.0
    assert rising_cosine(0, 1, 0.2, 0.9) == 1.0  # no factor is above 1


# The keys that are set, whether all bottoms are perceptrons, the number of rows, and the epochs of
# the fit, of the top model and of joint training.
EPOCHS: list[tuple[LocalStartSettings, bool, int, tuple[int, int, float]]] = [
    (LocalStartSettings(), True, 20_000, (20, 15, 1.5)),
    (LocalStartSettings(), True, 20_001, (3, 15, 1.5)),
    (FastStartSettings(), True, 20_000, (20, 15, 0.0)),
    (FastStartSettings(), True, 20_001, (1, 3, 0.0)),
    (FastStartSettings(), False, 20_001, (1, 3, 1.5)),
    (FastStartSettings(joint_epochs=0.5), True, 20_001, (1, 3, 0.5)),
    (FastStartSettings(fit_epochs=2, top_epochs=4), True, 20_001, (2, 4, 0.0)),
    (FastStartSettings(codes="fixed", joint_epochs=0.5), False, 20_001, (0, 3, 0.0)),
]


@pytest.mark.parametrize(("plan", "perceptrons", "rows", "epochs"), EPOCHS)
def test_epochs_follow_from_rows_and_bottoms(
    plan: LocalStartSettings, perceptrons: bool, rows: int, epochs: tuple[int, int, float]
) -> None:
    found = plan.epochs_of_fit(rows), plan.epochs_of_top(rows)
    assert (*found, plan.epochs_together(perceptrons=perceptrons)) == epochs


BOTTOMS: dict[str, tuple[Bottom, bool]] = {
    "mlp": (MlpBottom(), False),
    "cnn": (CnnBottom(kind="cnn"), True),
    "resnet18": (BackboneBottom(kind="resnet18"), True),
}


@pytest.mark.parametrize("name", BOTTOMS)
def test_convolutional_bottoms_are_fitted_to_patch_codes(name: str) -> None:
    bottom, patches = BOTTOMS[name]
    entry = PartyEntry(role="passive", width=4, bottom=bottom)
    images = torch.rand(60, 1, 14, 14, generator=torch.Generator().manual_seed(0))
    of_patches, of_pixels = patch_codes(images, 4, 5), svd_codes(images, 4, 5)
    assert not torch.allclose(of_patches, of_pixels)
    expected = of_patches if patches else of_pixels
    assert torch.equal(LocalFit("auto", 1, 8).code(images, entry, 5), expected)
    assert torch.equal(LocalFit("patches", 1, 8).code(images, entry, 5), of_patches)
    assert torch.equal(LocalFit("svd", 1, 8).code(images, entry, 5), of_pixels)


def test_numbers_that_are_not_finite_end_the_method(tmp_path: Path) -> None:
    """The trained model, which remembers the forgotten rows, is not restored."""
    unlearning = {"retrain_local": QUICK_START | {"joint_rate": 1e200}}
    message = "joint training: the loss, a gradient or a parameter"
    with (
        open_split_model(tmp_path, training=LEARN, unlearning=unlearning) as (split_model, _),
        pytest.raises(Diverged, match=message),
    ):
        retrain_local(split_model)


SHORT = {"rows": 0.2}


def start_locally(**changes: Any) -> dict[str, Any]:
    """The table [training] with a local start."""
    local = QUICK_START | {"joint_epochs": 1.5}
    return TRAINING | {"start": "local", "local": local} | changes


def test_original_and_retrains_have_the_same_recipe(tmp_path: Path) -> None:
    metrics = run(tmp_path, unlearn=FORGET, training=start_locally())
    steps = metrics["training"]["steps"]
    assert [each["number"] for each in steps] == [1, 2, 3, 4]  # two of the top model, two joint
    assert [each["validation_loss"] is None for each in steps] == [True, False, False, False]
    (request,) = metrics["requests"]
    found = {each["name"]: each for each in request["methods"]}
    for name in ("retrain", "retrain-2", "retrain-paired"):
        assert len(found[name]["details"]["epochs"]) == 4
        # Twice (1 + 1.5) times D_r, of two passive parties, and three passes of validation rows.
        retained, validation = request["rows"]["retained"], metrics["run"]["rows"]["validation"]
        joint = ceil(1.5 * retained / 8) * 8
        expected = 2 * (retained + joint + 3 * validation)
        assert found[name]["cost"]["rows"] == pytest.approx(expected, abs=2 * 8)
    cost = found["retrain"]["cost"]
    parts = ("rows", "size", "seconds")
    assert [cost[f"{part}_of_retrain"] for part in parts] == [1, 1, 1]
    tuned = found["fine-tune"]["cost"]
    for part in parts:
        assert tuned[f"{part}_of_retrain"] == pytest.approx(tuned[part] / cost[part])


def test_short_retrain_uses_a_part_of_the_rows_that_a_local_start_sends(tmp_path: Path) -> None:
    short = {"method": "short-retrain", "retrains": 0, "compare": (), "short_retrain": SHORT}
    metrics = run(tmp_path, unlearn=FORGET, training=start_locally(epochs=100), unlearning=short)
    (request,) = metrics["requests"]
    retained = request["rows"]["retained"]
    rows = request["methods"][1]["cost"]["rows"]
    # Of two passive parties; a step has 8 rows.
    assert rows == pytest.approx(2 * 0.2 * (1 + 1.5) * retained, abs=2 * 8)


CRASHED: dict[str, Any] = {
    "unlearn": FORGET,
    "training": start_locally(),
    "unlearning": QUICK
    | {
        "method": "retrain-local",
        "compare": ("fine-tune", "relabel"),
        "fedora": FEDORA,
        "retrain_local": QUICK_START | {"codes": "projection"},
    },
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    folder = tmp_path_factory.mktemp("undisturbed")
    prepare(folder)
    return run_parties(folder, **CRASHED)


@pytest.mark.parametrize(
    ("name", "message"), [("left", 26), ("hub", 80), ("left", 140), ("hub", 320)]
)
def test_crash_does_not_change_the_result(
    tmp_path: Path, uninterrupted: RunResult, name: str, message: int
) -> None:
    prepare(tmp_path)
    run_parties(tmp_path, (name, message), **CRASHED)
    after_crash = run_parties(tmp_path, **CRASHED)
    assert any(note.startswith("resumed checkpoint") for note in after_crash.notes)
    assert after_crash.files == uninterrupted.files
    assert after_crash.metrics is not None
    assert uninterrupted.metrics is not None
    for part in ("training", "requests"):
        assert without_costs(after_crash.metrics[part]) == without_costs(
            uninterrupted.metrics[part]
        )


VOTES = {
    "parties": {name: each | {"width": 3} for name, each in agreement()["parties"].items()},
    "top": {"kind": "sum"},
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a sum of votes": ({"training": start_locally(), **VOTES}, "needs a top model that learns"),
    "frozen bottoms": (
        {
            "training": start_locally(),
            "privacy": {"embed_once": {"clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}},
        },
        "privacy.embed_once keeps their random weights",
    ),
    "shards": (
        {
            "training": start_locally(),
            "preprocessing": "declared",
            "sharding": {"shards": 2},
            "unlearning": {"method": "sharded", "compare": ()},
        },
        "does not support shards",
    ),
    "a method with a sum of votes": (
        {"unlearning": {"method": "retrain-local"}, **VOTES},
        "the method retrain-local needs a top model",
    ),
    "a counterfactual constraint with a sum of votes": (
        {"unlearning": {"fedora": {"policy": "counterfactual"}}, **VOTES},
        "policy = 'counterfactual' needs a top model",
    ),
    "a redrawn start with frozen bottoms": (
        {
            "unlearning": {"fedora": {"start": "redrawn"}},
            "privacy": {"embed_once": {"clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}},
        },
        "start = 'redrawn' fits bottom models, but privacy.embed_once",
    ),
    "a redrawn start with kept embeddings": (
        {
            "training": start_locally(local={"codes": "fixed", "keep_embeddings": True}),
            "preprocessing": "declared",
            "unlearning": {"fedora": {"start": "redrawn"}},
        },
        "start = 'redrawn' fits bottom models, but training.local.keep_embeddings",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_without_a_local_start_are_refused(tmp_path: Path, name: str) -> None:
    changes, reason = REFUSED[name]
    with pytest.raises(ConfigError, match=reason):
        party(tmp_path, "hub", agreement(**changes), [])
