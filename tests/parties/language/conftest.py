"""Fixtures for tests of texts: small tokenizers, a tiny base model, folders of real files."""

from collections.abc import Callable
from pathlib import Path

import pytest
from small_tokenizers import byte_level, merging, spaced
from transformers import PreTrainedTokenizerFast

from tests import data_folder
from tests.parties.language.ferries import write_base, write_texts

LLAMA_3 = (
    "{% for message in messages %}<s>{{ message['role'] }}\n\n{{ message['content'] | trim }}</s>"
    "{% endfor %}{% if add_generation_prompt %}<s>assistant\n\n{% endif %}"
)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    result = byte_level()
    result.chat_template = LLAMA_3
    return result


@pytest.fixture(scope="session", params=[byte_level, spaced, merging])
def any_tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    make: Callable[[], PreTrainedTokenizerFast] = request.param
    return make()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a tiny base model and texts about ferries."""
    folder = tmp_path_factory.mktemp("ferries")
    write_base(folder)
    write_texts(folder)
    return folder


def _real(*names: str) -> Path:
    folder = data_folder.folder().joinpath(*names)
    if not folder.is_dir():
        pytest.skip(f"NOT RUN, no {folder}; set VFL_DATA")
    return folder


@pytest.fixture(scope="session")
def real_tofu() -> Path:
    return _real("tofu")


@pytest.fixture(scope="session")
def real_muse() -> Path:
    return _real("muse")
