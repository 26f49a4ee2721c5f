"""Tests of loading a language model from a folder, and of folders that are refused."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.language.errors import LanguageModelError
from models.language.folder import base_model_digest, examine_model_folder
from models.language.loading import check_quantisation, load_language_model, load_tokenizer


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """Return a copy of the saved model, which the test may change."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def change(path: Path, **settings: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def test_a_saved_model_is_loaded(saved, model, tokens) -> None:
    result = load_language_model(saved)
    assert torch.equal(result.model(input_ids=tokens).logits, model(input_ids=tokens).logits)
    assert not result.model.training
    assert result.tokenizer.decode(result.tokenizer.encode("Ada, in Ulm")) == "Ada, in Ulm"
    assert result.digest == base_model_digest(saved)


def test_generation_settings_of_the_folder_are_ignored(saved, folder, tokens) -> None:
    def continued(where: Path) -> list[int]:
        result = load_language_model(where).model
        return result.generate(input_ids=tokens, max_new_tokens=12, do_sample=False).tolist()

    before = continued(saved)
    forbidden = before[0][tokens.shape[1]]
    change(
        folder / "generation_config.json",
        **{"repetition_penalty": 9.0, "no_repeat_ngram_size": 1, "suppress_tokens": [forbidden]},
    )
    assert continued(folder) == before


def test_a_model_is_loaded_in_bfloat16(saved) -> None:
    result = load_language_model(saved, precision="bfloat16")
    assert {each.dtype for each in result.model.parameters()} == {torch.bfloat16}


def test_shards_are_read_and_determine_the_digest(folder, model, tokens) -> None:
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="30KB")
    assert len(examine_model_folder(folder).weights) > 1
    result = load_language_model(folder)
    assert torch.equal(result.model(input_ids=tokens).logits, model(input_ids=tokens).logits)
    before = base_model_digest(folder)
    shard = examine_model_folder(folder).weights[0]
    save_file({n: t + 1 for n, t in load_file(shard).items()}, shard, metadata={"format": "pt"})
    assert base_model_digest(folder) != before


def test_the_digest_is_of_names_and_contents_by_hand(tmp_path, saved) -> None:
    names = sorted(each.name for each in saved.iterdir())
    assert names == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    expected = sha256(b"base language model, form 1\n")
    for name in names:
        content = (saved / name).read_bytes()
        expected.update(name.encode() + b"\0" + sha256(content).digest())
    assert base_model_digest(saved) == expected.hexdigest()


def test_the_digest_ignores_other_files_and_order(saved, tmp_path) -> None:
    for path in sorted(saved.iterdir(), reverse=True):
        shutil.copy(path, tmp_path / path.name)
    (tmp_path / "README.md").write_text("other")
    assert base_model_digest(tmp_path) == base_model_digest(saved)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_the_digest_changes_with_a_file(folder, name) -> None:
    before = base_model_digest(folder)
    (folder / name).write_text((folder / name).read_text() + "\n")
    assert base_model_digest(folder) != before


def refused(folder: Path, message: str, hint: str = "") -> None:
    with pytest.raises(LanguageModelError, match=message) as caught:
        load_language_model(folder)
    assert hint in caught.value.hint
    assert caught.value.hint


def test_an_absent_folder_is_refused(tmp_path) -> None:
    refused(tmp_path / "nowhere", "there is no folder", "never downloaded")


def test_a_folder_without_config_is_refused(folder) -> None:
    (folder / "config.json").unlink()
    refused(folder, "has no file config.json")


def test_a_lone_adapter_is_refused(folder) -> None:
    (folder / "config.json").rename(folder / "adapter_config.json")
    refused(folder, "only an adapter", "base model's folder")


def test_a_hidden_adapter_is_refused(folder) -> None:
    (folder / "adapter_config.json").write_text("{}")
    refused(folder, "a model and also an adapter")


def test_pickled_weights_are_refused(folder) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, "pytorch_model.bin, a pickle file", "save_pretrained")


def test_absent_weights_are_refused(folder) -> None:
    (folder / "model.safetensors").unlink()
    refused(folder, "no weights")


def test_truncated_weights_are_refused(folder) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    refused(folder, "truncated or damaged", "copy the file again")


def test_an_absent_tokenizer_is_refused(folder) -> None:
    (folder / "tokenizer.json").unlink()
    refused(folder, "has no tokenizer")


def test_a_damaged_tokenizer_is_refused(folder) -> None:
    (folder / "tokenizer.json").write_text("{}")
    refused(folder, "tokenizer cannot be read")


def test_an_invalid_json_file_is_refused(folder) -> None:
    (folder / "config.json").write_text("{")
    refused(folder, "is not JSON")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "t5"}, "t5 is not a causal language model"),
        ({"model_type": "mine", "auto_map": {"AutoModel": "mine.Model"}}, "never run"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "names no causal language model"),
        ({"attn_implementation": "someone/kernel"}, "names a kernel"),
        ({"_attn_implementation": {"": "someone/kernel"}}, "names a kernel"),
    ],
)
def test_another_kind_of_model_is_refused(folder, settings, message) -> None:
    change(folder / "config.json", **settings)
    refused(folder, message)


def test_an_index_that_names_other_files_is_refused(folder) -> None:
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))
    refused(folder, "not a safetensors file in this folder")
    index.write_text(json.dumps({"weight_map": {"a": "one.safetensors"}}))
    refused(folder, "lists the weight file one.safetensors")


def test_weights_of_another_model_are_refused(folder) -> None:
    path = folder / "model.safetensors"
    remaining = {name: each for name, each in load_file(path).items() if "layers.1.mlp" not in name}
    save_file(remaining, path, metadata={"format": "pt"})
    refused(folder, "3 tensors of the model, such as model.layers.1.mlp")


def test_a_tokenizer_of_a_larger_model_is_refused(folder, tokenizer) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    more = {**content["added_tokens"][-1], "content": "<|more|>", "id": len(tokenizer)}
    path.write_text(json.dumps(content | {"added_tokens": [*content["added_tokens"], more]}))
    refused(folder, "the tokenizer has 301 tokens, but the model has embeddings for only 300")


def test_the_end_token_is_used_for_padding_if_there_is_no_other(folder) -> None:
    content = json.loads((folder / "tokenizer_config.json").read_text())
    assert content.pop("pad_token") == "<|pad|>"
    (folder / "tokenizer_config.json").write_text(json.dumps(content))
    assert load_tokenizer(folder).pad_token == "<|pad|>"  # found by its name
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("<|pad|>", "<|other|>"))
    result = load_language_model(folder)
    assert result.tokenizer.pad_token == "<|end|>"
    assert result.model.config.pad_token_id == result.tokenizer.eos_token_id


def test_a_tokenizer_without_end_is_refused(folder) -> None:
    content = json.loads((folder / "tokenizer_config.json").read_text())
    del content["eos_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(content))
    refused(folder, "no end token")


@pytest.mark.skipif(torch.cuda.is_available(), reason="NOT RUN, this machine has a GPU")
def test_quantised_weights_without_a_gpu_are_refused(saved) -> None:
    with pytest.raises(LanguageModelError, match=r"int4 weights need .*a CUDA GPU"):
        load_language_model(saved, quantisation="int4")


def test_missing_requirements_of_quantised_weights_are_named(monkeypatch) -> None:
    """Simulate each missing requirement; no machine lacks exactly one."""
    monkeypatch.setattr("models.language.loading.find_spec", lambda name: None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(LanguageModelError, match=r"int8 weights need the library bitsandbytes$"):
        check_quantisation("int8", torch.device("cuda"))
    monkeypatch.setattr("models.language.loading.find_spec", lambda name: name)
    with pytest.raises(LanguageModelError, match="need a device such as cuda:0 instead of cpu"):
        check_quantisation("int8", torch.device("cpu"))
    check_quantisation("int8", torch.device("cuda"))
