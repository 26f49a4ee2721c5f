"""Tests of the backbones: published sizes, no running statistics, no random layers."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from models.backbones import BACKBONES, GROUPS, densenet121, resnet18
from models.initialisation import build_seeded
from models.torchvision_ops import DECLARED, declare_missing_operators

# Parameters of the published networks without their first convolution and their last layer, and
# the width that the last layer takes. BatchNorm and GroupNorm have equally many.
PUBLISHED = {
    "resnet18": (11_689_512, 512),
    "resnet50": (25_557_032, 2048),
    "densenet121": (7_978_856, 1024),
}


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("name", BACKBONES)
def test_backbone_has_the_published_layers(name: str) -> None:
    network = BACKBONES[name]((1, 8, 8), 5)
    whole, last = PUBLISHED[name]
    stem, head = 7 * 7 * 3 * 64 - 3 * 3 * 1 * 64, (last + 1) * (1000 - 5)
    assert parameters(network) == whole - stem - head


@pytest.mark.parametrize("name", BACKBONES)
def test_backbone_has_no_statistics_and_no_randomness(name: str) -> None:
    network = BACKBONES[name]((1, 8, 8), 5)
    kinds = {type(part) for part in network.modules()}
    assert list(network.buffers()) == []
    assert not any(issubclass(kind, nn.modules.batchnorm._NormBase) for kind in kinds)
    assert not any("Dropout" in kind.__name__ for kind in kinds)
    norms = [part for part in network.modules() if isinstance(part, nn.GroupNorm)]
    assert norms
    assert all(norm.num_channels % norm.num_groups == 0 for norm in norms)
    assert {norm.num_groups for norm in norms} == {GROUPS}
    image = torch.randn(2, 1, 8, 8)
    assert torch.equal(network(image), network(image))


@pytest.mark.parametrize(
    ("shape", "size"),
    [((1, 28, 14), (28, 14)), ((3, 32, 16), (32, 16)), ((3, 64, 32), (32, 16))],
)
@pytest.mark.parametrize(
    ("name", "stem"), [("resnet18", "conv1"), ("densenet121", "features.conv0")]
)
def test_stem_keeps_small_images_and_halves_larger_ones(
    name: str, stem: str, shape: tuple[int, int, int], size: tuple[int, int]
) -> None:
    layer = BACKBONES[name](shape, 3).get_submodule(stem)
    assert layer(torch.zeros(1, *shape)).shape == (1, 64, *size)


@pytest.mark.parametrize("shape", [(1, 28, 14), (3, 32, 16), (3, 64, 32)])
def test_resnet18_accepts_strips_of_images(shape: tuple[int, int, int]) -> None:
    assert resnet18(shape, 7)(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize("name", BACKBONES)
def test_every_layer_has_a_deterministic_gradient_on_a_gpu(name: str) -> None:
    """Torch lists adaptive pooling as nondeterministic, but over all pixels it is only a mean."""
    names: set[str] = set()
    waiting = [BACKBONES[name]((3, 16, 8), 2)(torch.zeros(1, 3, 16, 8)).grad_fn]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            names.add(node.name())
            waiting += [before for before, _ in node.next_functions]
    assert "MeanBackward1" in names
    assert not any("Adaptive" in each or "MaxPool" in each for each in names)


def test_same_seed_builds_the_same_backbone() -> None:
    first, second = (build_seeded(3, lambda: densenet121((1, 8, 8), 2)) for _ in range(2))
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize(("shape", "minimum"), [((3, 32, 7), 8), ((3, 64, 12), 16)])
def test_part_too_small_for_a_densenet_is_refused(
    shape: tuple[int, int, int], minimum: int
) -> None:
    with pytest.raises(ValueError, match=f"needs images with at least {minimum} pixels per side"):
        densenet121(shape, 3)


def test_operators_are_declared_once_and_only_where_torchvision_lacks_them() -> None:
    import torchvision  # noqa: PLC0415

    before = len(DECLARED)
    declare_missing_operators()
    assert len(DECLARED) == before == (0 if torchvision.extension._has_ops() else 1)


@pytest.mark.slow
def test_another_failure_of_torchvision_is_raised() -> None:
    """Run a process whose torchvision fails for another reason than missing operators."""
    script = (
        "import sys, types\n"
        "class Broken:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torchvision':\n"
        "            raise RuntimeError('disk on fire')\n"
        "sys.meta_path.insert(0, Broken())\n"
        "import models.backbones\n"
    )
    command, root = [sys.executable, "-c", script], Path(__file__).parents[2]
    ended = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "disk on fire" in ended.stderr
