"""TOFU and MUSE at the server, with their original files and a tiny model."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from configs.config_file import read_config
from models.language.rounding import Bits, round_matrix
from parties.language.engine.base_model import BaseModel, load_base_model
from parties.language.evaluation.benchmarks import attacks
from parties.language.evaluation.benchmarks.benchmark import Benchmark
from parties.language.evaluation.benchmarks.benchmark_encoder import BenchmarkEncoder
from parties.language.evaluation.benchmarks.inference import generate_answers, mean_nlls
from parties.language.evaluation.benchmarks.muse import MuseQuestions
from parties.language.evaluation.benchmarks.tofu import TofuQuestions
from parties.language.registry import SCHEMA as LANGUAGE
from parties.language.texts.tofu import read_tofu_split
from tests import data_folder
from tests.parties.language.ferries import SHAPE, facts, simulation_config, write_base

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
    return read_config(simulation_config(folder, EVALUATION), LANGUAGE)


@pytest.fixture(scope="module")
def base_model(config: Any) -> BaseModel:
    return load_base_model(config.agreement, config.path.parent / "base", "cpu")


def real_folder(folder: str) -> Path:
    path = data_folder.folder() / folder
    if not path.is_dir():
        pytest.skip(f"NOT RUN, no {path}; set VFL_DATA")
    return path


def test_losses_and_generated_answers_do_not_depend_on_the_batch(base_model: BaseModel) -> None:
    pairs = [(each["question"], each["answer"]) for each in facts()[:5]]
    rows = base_model.encoder.answers(pairs)
    base_model.load(base_model.initial)
    base_model.model.eval()
    means = mean_nlls(base_model, rows, 2)
    for row, mean in zip(rows, means, strict=True):
        with torch.no_grad():
            log_p = (
                base_model.model(input_ids=torch.from_numpy(row.ids)[None]).logits[0].log_softmax(1)
            )
        each = [float(log_p[at - 1, row.ids[at]]) for at in range(row.start, len(row.ids))]
        assert float(mean) == pytest.approx(-np.mean(each), rel=1e-4)
    prompts = base_model.encoder.prompts([question for question, _ in pairs])
    together = generate_answers(base_model, prompts, 6, 5)
    assert together == [generate_answers(base_model, [each], 6, 1)[0] for each in prompts]


@pytest.mark.parametrize(("bits", "group"), [(8, None), (4, 64)])
def test_weights_are_rounded_per_channel_or_group(
    tmp_path: Path, bits: Bits, group: int | None
) -> None:
    write_base(tmp_path, replace(SHAPE, intermediate=160))
    agreement = read_config(simulation_config(tmp_path, EVALUATION), LANGUAGE).agreement
    base_model = load_base_model(agreement, tmp_path / "base", "cpu")
    name = "model.layers.1.mlp.down_proj.weight"  # of 160 inputs
    exact, quantised = (
        each.model.get_parameter(name)
        for each in (base_model, attacks.quantised_copy(base_model, bits))
    )
    assert torch.equal(quantised, round_matrix(exact.detach(), bits, group))
    assert not torch.equal(quantised, exact)


def test_tofu_measures_all_figures(config: Any, base_model: BaseModel) -> None:
    plan = config.agreement.evaluation
    tofu = TofuQuestions.read(real_folder("tofu"), "forget10", plan, BenchmarkEncoder(base_model))
    steps: list[int] = []
    metrics = Benchmark(tofu, config.agreement).measure(
        base_model, base_model.initial, lambda: steps.append(1)
    )
    assert len(metrics["ratios"]) == 2
    parts = ("retain", "real_authors", "world_facts")
    nine = [metrics[f"{p}_{f}"] for p in parts for f in ("probability", "rouge", "truth_ratio")]
    expected = 0.0 if min(nine) == 0 else 9 / sum(1 / each for each in nine)
    assert metrics["model_utility"] == pytest.approx(expected)
    assert {"rounded_8_probability", "rounded_4_probability"} <= set(metrics)
    assert 0 < metrics["relearned_before"] < metrics["relearned"] < 1
    assert steps
    parameters = base_model.trainable_vector()
    assert torch.equal(parameters, base_model.initial), "attacks do not change the model"

    questions = read_tofu_split(real_folder("tofu"), "forget10_perturbed")[:2]
    first = questions[0]
    encoder = replace(base_model.encoder, longest=base_model.context_length)
    answers = [first.paraphrased_answer, *first.perturbed_answers]
    nlls = mean_nlls(base_model, encoder.answers([(first.question, each) for each in answers]), 8)
    likely = [math.exp(-float(each)) for each in nlls]
    assert metrics["ratios"][0] == pytest.approx(np.mean(likely[1:]) / likely[0], rel=1e-4)
    geometric = math.exp(np.mean([math.log(each) for each in likely[1:]])) / likely[0]
    assert metrics["geometric_ratios"][0] == pytest.approx(geometric, rel=1e-4)
    pairs = [(each.paraphrased_question, each.answer) for each in questions]
    reworded = (-mean_nlls(base_model, encoder.answers(pairs), 8)).exp().mean()
    assert metrics["forget_reworded_probability"] == pytest.approx(float(reworded), rel=1e-4)


def test_muse_measures_all_figures(config: Any, base_model: BaseModel) -> None:
    muse = MuseQuestions.read(
        real_folder("muse") / "news", config.agreement.evaluation, BenchmarkEncoder(base_model)
    )
    metrics = Benchmark(muse, config.agreement).measure(
        base_model, base_model.initial, lambda: None
    )
    assert 0 <= metrics["forget_knowledge"] <= 1
    assert 0 <= metrics["verbatim_memory"] <= 1
    assert 0 <= metrics["leak_auc"] <= 1
