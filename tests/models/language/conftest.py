"""Fixtures for tests of language models: a tiny random model, its folder, and a tokenizer."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import models.language  # noqa: F401  before transformers
from models.language.tiny import build_tiny_model, save_language_model, train_tokenizer
from tests.models.language.tiny_texts import SHAPE, TEXTS


@pytest.fixture(scope="session")
def tokenizer():
    return train_tokenizer(TEXTS, vocabulary=300)


@pytest.fixture
def model(tokenizer):
    """Return a new tiny model, since adapters change a model in place."""
    return build_tiny_model(tokenizer, SHAPE, seed=1).train(False)


@pytest.fixture(scope="session")
def saved(tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a saved model's folder, which no test changes."""
    folder = tmp_path_factory.mktemp("tiny") / "base"
    save_language_model(build_tiny_model(tokenizer, SHAPE, seed=1), tokenizer, folder)
    return folder


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(0, 300, (2, 9), generator=torch.Generator().manual_seed(5))
