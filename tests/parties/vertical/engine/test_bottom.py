"""Bottom models: built-in kinds, a party's own module, and runs with each kind."""

import gzip
import struct
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import own_net
import pytest
import torch
from own_net import Bottom
from torch import nn
from whole_run import run

from configs.agreement import BackboneBottom, CnnBottom, MlpBottom, ModuleBottom, PartyEntry
from configs.errors import ConfigError
from models.initialisation import build_seeded
from parties.cli.modes import SCHEMAS
from parties.session.simulation import SimulationPlan
from parties.vertical.engine.networks import (
    OwnModule,
    build_bottom,
    give_module,
    module_source_digest,
)
from parties.vertical.in_process import run_in_process


def plan(bottom) -> PartyEntry:
    return PartyEntry(role="passive", width=5, bottom=bottom)


@pytest.mark.parametrize(
    ("bottom", "shape"),
    [
        (MlpBottom(hidden=(7,)), (3,)),
        (MlpBottom(hidden=()), (1, 4, 4)),
        (CnnBottom(kind="cnn", channels=(4,)), (1, 28, 14)),
        (BackboneBottom(kind="resnet18"), (3, 8, 4)),
        (BackboneBottom(kind="densenet121"), (1, 8, 8)),
    ],
)
def test_every_kind_gives_embeddings_of_the_agreed_width(bottom, shape) -> None:
    network = build_bottom(plan(bottom), None, shape)
    assert network(torch.zeros(2, *shape)).shape == (2, 5)


@pytest.mark.parametrize("bottom", [CnnBottom(kind="cnn"), BackboneBottom(kind="resnet50")])
def test_image_network_refuses_a_table(bottom) -> None:
    with pytest.raises(ConfigError, match=f"'{bottom.kind}' needs images"):
        build_bottom(plan(bottom), None, (3,))


def test_images_too_narrow_for_a_densenet_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 8 pixels per side") as caught:
        build_bottom(plan(BackboneBottom(kind="densenet121")), None, (3, 32, 4))
    assert "larger part" in caught.value.hint


def own(source: str) -> PartyEntry:
    return plan(ModuleBottom(kind="module", source=source))


def test_a_party_s_own_module_is_built() -> None:
    network = build_bottom(
        own(module_source_digest(Bottom)), OwnModule("shop", "own_net:Bottom"), (3,)
    )
    assert isinstance(network, Bottom)
    assert network(torch.zeros(2, 3)).shape == (2, 5)


def test_weights_do_not_depend_on_the_first_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import torch\nfrom own_net import Bottom as Base\ntorch.rand(3)\nclass Bottom(Base): ...\n"
    )
    (tmp_path / "draws_at_import.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    source = f"sha256:{sha256(text.encode()).hexdigest()}"
    module = OwnModule("shop", "draws_at_import:Bottom")

    def weights() -> torch.Tensor:
        built = build_seeded(3, lambda: build_bottom(own(source), module, (3,)))
        return built.linear.weight

    assert "draws_at_import" not in sys.modules
    first = weights()
    assert "draws_at_import" in sys.modules
    assert torch.equal(weights(), first)


class Scaled(nn.Module):
    """A network whose output depends on its code."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(5))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows * self.factor * 2


def test_digest_of_an_object_covers_code_and_weights() -> None:
    digest, given = give_module("the bottom model of shop", Scaled())
    assert torch.equal(
        build_bottom(own(digest), OwnModule("shop", None), (5,))(torch.ones(2, 5)),
        torch.full((2, 5), 2.0),
    )
    del given
    again, given = give_module("the bottom model of shop", Scaled())
    assert again == digest

    def forward(self: Scaled, rows: torch.Tensor) -> torch.Tensor:
        return rows * self.factor * 3

    changed = type("Scaled", (Scaled,), {"forward": forward})()
    heavier = Scaled()
    heavier.factor.data[0] = 2
    equal, beside = give_module("the bottom model of shop", Scaled())
    assert given is not beside  # two equal objects can exist at once: each has its own digest
    others = {give_module("the bottom model of shop", each)[0] for each in (changed, heavier)}
    assert len(others | {digest, equal}) == 4


def test_object_that_no_longer_exists_is_refused() -> None:
    digest, given = give_module("the bottom model of shop", nn.Linear(3, 5))
    build_bottom(own(digest), OwnModule("shop", None), (3,))
    del given
    with pytest.raises(ConfigError, match="this process has no object with the agreed digest"):
        build_bottom(own(digest), OwnModule("shop", None), (3,))


def test_module_that_differs_from_the_agreement_is_refused() -> None:
    with pytest.raises(ConfigError, match="the agreement has digest sha256:00"):
        build_bottom(own("sha256:" + "0" * 64), OwnModule("shop", "own_net:Bottom"), (3,))


@pytest.mark.parametrize("path", ["nowhere:Bottom", "own_net:Top", "own_net:WIDTH"])
def test_module_that_cannot_be_imported_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot import|not a subclass"):
        build_bottom(own(module_source_digest(Bottom)), OwnModule("shop", path), (3,))


def test_settings_that_do_not_name_the_module_are_refused() -> None:
    with pytest.raises(ConfigError, match="kind 'module'"):
        build_bottom(own(module_source_digest(Bottom)), OwnModule("shop", None), (3,))


def test_a_run_with_the_sum_of_votes(tmp_path: Path) -> None:
    parties = {
        name: {"role": "active" if name == "hub" else "passive", "width": 3}
        for name in ("hub", "left", "right")
    }
    metrics = run(tmp_path, parties=parties, top={"kind": "sum"})
    losses = [epoch["loss"] for epoch in metrics["training"]["steps"]]
    assert losses[-1] < losses[0]


def test_a_run_on_image_halves_with_cnns(tmp_path: Path) -> None:
    """Files in the original format of MNIST, halves at two parties, labels at a third."""
    generator = np.random.default_rng(1)
    for part, count in (("train", 120), ("t10k", 40)):
        label = generator.integers(0, 3, count).astype(np.uint8)
        pixels = generator.integers(0, 80, (count, 28, 28)).astype(np.uint8)
        pixels[np.arange(count), :, label * 8] = 255  # the label is a bright column
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(struct.pack(">2I", 2049, count) + label.tobytes())
        )
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(struct.pack(">4I", 2051, count, 28, 28) + pixels.tobytes())
        )
    config = Path(__file__).parents[4] / "configs" / "vertical" / "fashion.toml"
    changes = (
        'parties.left.bottom={kind="cnn", channels=[4, 8]}',
        'parties.right.bottom={kind="cnn", channels=[4, 8]}',
        "training.epochs=4", "training.batch=16", "unlearn=[]", "psi.minimum=10",
    )  # fmt: skip
    text = config.read_text().replace("fashion-mnist/", "")
    (tmp_path / "images.toml").write_text(text)
    run_plan = SimulationPlan(
        tmp_path / "images.toml", changes, tmp_path / "runs", tmp_path, schemas=SCHEMAS
    )
    metrics = run_in_process(run_plan, lambda event: None)
    assert metrics["run"]["common_rows"] == 160
    losses = [epoch["loss"] for epoch in metrics["training"]["steps"]]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", ["Remembers", "Forgets"])
def test_module_with_statistics_or_randomness_is_refused(name: str) -> None:
    module = getattr(own_net, name)
    with pytest.raises(ConfigError, match=r"BatchNorm1d|Dropout"):
        build_bottom(own(module_source_digest(module)), OwnModule("shop", f"own_net:{name}"), (3,))
