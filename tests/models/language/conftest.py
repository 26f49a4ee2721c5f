"""What tests of language models share: a tiny random model, its folder, and a tokenizer."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import models.language  # noqa: F401  before transformers
from models.language.tiny import build_tiny, save_model, train_tokenizer
from tests.models.language.tiny_texts import SHAPE, TEXTS


@pytest.fixture(scope="session")
def tokenizer():
    return train_tokenizer(TEXTS, vocabulary=300)


@pytest.fixture
def model(tokenizer):
    """A fresh one: adapters change it in place."""
    return build_tiny(tokenizer, SHAPE, seed=1).train(False)


@pytest.fixture(scope="session")
def saved(tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that nobody changes."""
    folder = tmp_path_factory.mktemp("tiny") / "base"
    save_model(build_tiny(tokenizer, SHAPE, seed=1), tokenizer, folder)
    return folder


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(0, 300, (2, 9), generator=torch.Generator().manual_seed(5))
