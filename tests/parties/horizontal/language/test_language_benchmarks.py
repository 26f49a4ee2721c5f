"""TOFU and MUSE as the server asks them, on their original files and a tiny model."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from configs.federated_file import read_language
from models.language.rounding import Bits
from models.language.rounding import rounded as round_matrix
from parties.language.engine.base_model import Room, furnish
from parties.language.evaluation.benchmarks import attacks
from parties.language.evaluation.benchmarks.asking import mean_nlls, said
from parties.language.evaluation.benchmarks.benchmark import Benchmark
from parties.language.evaluation.benchmarks.muse import Muse
from parties.language.evaluation.benchmarks.reading import Reader
from parties.language.evaluation.benchmarks.tofu import Tofu
from parties.language.texts.tofu import read_split
from tests import data_folder
from tests.parties.horizontal.language.ferries import SHAPE, facts, simulated, write_base

EVALUATION = """
[evaluation]
benchmark = "tofu"
rows = 2
tokens = 4
quantise = true
relearn = 2
relearn_share = 0.5
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("ferries")
    write_base(folder, replace(SHAPE, length=6000))
    return read_language(simulated(folder, EVALUATION))


@pytest.fixture(scope="module")
def room(config: Any) -> Room:
    return furnish(config.agreement, config.path.parent / "base", "cpu")


def there(folder: str) -> Path:
    found = data_folder.folder() / folder
    if not found.is_dir():
        pytest.skip(f"NOT RUN, no {found}; set VFL_DATA")
    return found


def test_what_is_likely_and_what_is_said_are_the_models_own(room: Room) -> None:
    pairs = [(each["question"], each["answer"]) for each in facts()[:5]]
    rows = room.encoder.answers(pairs)
    room.take(room.start)
    room.model.eval()
    found = mean_nlls(room, rows, 2)
    for row, known in zip(rows, found, strict=True):
        with torch.no_grad():
            log_p = room.model(input_ids=torch.from_numpy(row.ids)[None]).logits[0].log_softmax(1)
        each = [float(log_p[at - 1, row.ids[at]]) for at in range(row.start, len(row.ids))]
        assert float(known) == pytest.approx(-np.mean(each), rel=1e-4)
    prompts = room.encoder.prompts([question for question, _ in pairs])
    together = said(room, prompts, 6, 5)
    assert together == [said(room, [each], 6, 1)[0] for each in prompts]


@pytest.mark.parametrize(("bits", "group"), [(8, None), (4, 64)])
def test_weights_are_rounded_as_is_usual(tmp_path: Path, bits: Bits, group: int | None) -> None:
    write_base(tmp_path, replace(SHAPE, intermediate=160))
    agreement = read_language(simulated(tmp_path, EVALUATION)).agreement
    room = furnish(agreement, tmp_path / "base", "cpu")
    name = "model.layers.1.mlp.down_proj.weight"  # of 160 inputs
    whole, found = (each.model.get_parameter(name) for each in (room, attacks.rounded(room, bits)))
    assert torch.equal(found, round_matrix(whole.detach(), bits, group))
    assert not torch.equal(found, whole)


def test_tofu_has_all_its_figures(config: Any, room: Room) -> None:
    plan = config.agreement.evaluation
    tofu = Tofu.read(there("tofu"), "forget10", plan, Reader(room))
    steps: list[int] = []
    found = Benchmark(tofu, config.agreement).marks(room, room.start, lambda: steps.append(1))
    assert len(found["ratios"]) == 2
    parts = ("retain", "real_authors", "world_facts")
    nine = [found[f"{p}_{f}"] for p in parts for f in ("probability", "rouge", "truth_ratio")]
    wanted = 0.0 if min(nine) == 0 else 9 / sum(1 / each for each in nine)
    assert found["model_utility"] == pytest.approx(wanted)
    assert {"rounded_8_probability", "rounded_4_probability"} <= set(found)
    assert 0 < found["relearned_before"] < found["relearned"] < 1
    assert steps
    kept = room.vector()
    assert torch.equal(kept, room.start), "attacks leave the model as it is"

    questions = read_split(there("tofu"), "forget10_perturbed")[:2]
    first = questions[0]
    encoder = replace(room.encoder, longest=room.context)
    asked = [first.paraphrased_answer, *first.perturbed_answers]
    nlls = mean_nlls(room, encoder.answers([(first.question, each) for each in asked]), 8)
    likely = [math.exp(-float(each)) for each in nlls]
    assert found["ratios"][0] == pytest.approx(np.mean(likely[1:]) / likely[0], rel=1e-4)
    pairs = [(each.paraphrased_question, each.answer) for each in questions]
    reworded = (-mean_nlls(room, encoder.answers(pairs), 8)).exp().mean()
    assert found["forget_reworded_probability"] == pytest.approx(float(reworded), rel=1e-4)


def test_muse_has_its_figures(config: Any, room: Room) -> None:
    muse = Muse.read(there("muse") / "news", config.agreement.evaluation, Reader(room))
    found = Benchmark(muse, config.agreement).marks(room, room.start, lambda: None)
    assert 0 <= found["forget_knowledge"] <= 1
    assert 0 <= found["verbatim_memory"] <= 1
    assert 0 <= found["leak_auc"] <= 1
