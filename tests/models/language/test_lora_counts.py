"""Tests of counts: the paper's integers, and peft's own count on a real model."""

import pytest

from models.language.adapters import Lora, adapt
from models.language.errors import LanguageModelError
from models.language.lora_counts import lora_count, public_configs


@pytest.mark.parametrize(
    ("name", "adapters", "base", "percent"),
    [
        ("Llama-3.2-1B", 22_544_384, 1_235_814_400, 1.79),
        ("Llama-3.2-3B", 48_627_712, 3_212_749_824, 1.49),
        ("Llama-3.1-8B", 83_886_080, 8_030_261_248, 1.03),
        ("Llama-2-7B", 79_953_920, 6_738_415_616, 1.17),
    ],
)
def test_the_papers_integers(name, adapters, base, percent) -> None:
    found = lora_count(public_configs()[name], rank=32)
    assert (found.adapters, found.base, found.model) == (adapters, base, adapters + base)
    assert round(100 * found.share, 2) == percent


def test_one_billion_sends_90_megabytes_each_way() -> None:
    assert lora_count(public_configs()["Llama-3.2-1B"]).bytes_each_way == 90_177_536


@pytest.mark.parametrize("modules", [("q_proj",), ("k_proj", "down_proj"), Lora().modules])
def test_the_count_is_pefts(model, modules) -> None:
    found = lora_count(model.config, rank=3, modules=modules)
    base = sum(each.numel() for each in model.parameters())
    trained, total = adapt(model, Lora(rank=3, modules=modules), 0).get_nb_trainable_parameters()
    assert (found.adapters, found.base, found.model) == (trained, base, total)


def test_an_unknown_module_is_refused(model) -> None:
    with pytest.raises(LanguageModelError, match="a llama has no linear module fc1"):
        lora_count(model.config, modules=("q_proj", "fc1"))
