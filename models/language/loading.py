"""Loading of a causal language model and its tokenizer from a folder on this machine.

Weights are read from safetensors files only, nothing is downloaded, and no code in the folder is
run. The module ``folder`` checks the files.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from models.language.errors import LanguageModelError
from models.language.folder import ModelFolder, examine_model_folder

Precision: TypeAlias = Literal["float32", "bfloat16"]
Quantisation: TypeAlias = Literal["none", "int8", "int4"]  # of the frozen base's linear weights

PRECISIONS: dict[Precision, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # the caller shows its own progress
# Padding tokens, or tokens without another use, that are tried before the end token is used.
_PADS = ("<|finetune_right_pad_id|>", "<pad>", "<|pad|>", "[PAD]")


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A model with the tokenizer from the same folder.

    If the tokenizer has no padding token, the end token is used for padding. To find the padding of
    a batch, use the attention mask: a comparison with the padding token would also find the end
    tokens of the texts.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    digest: str  # of the folder, in hex


def load_language_model(
    folder: Path,
    precision: Precision = "float32",
    device: str = "cpu",
    quantisation: Quantisation = "none",
) -> LanguageModel:
    """Load a model in evaluation mode; all weights are trainable unless they are quantised.

    Raises:
        LanguageModelError: a file of the folder is missing, damaged or not allowed, the weights do
            not match the config, or this machine does not support the quantisation.
    """
    place = torch.device(device)
    check_quantisation(quantisation, place)
    examined = examine_model_folder(folder)
    tokenizer = load_tokenizer(folder)
    model = _load_model(examined, precision, place, quantisation)
    rows = len(model.get_input_embeddings().weight)  # type: ignore[arg-type]
    if len(tokenizer) > rows:
        raise LanguageModelError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens, but the model has embeddings "
            f"for only {rows} tokens",
            hint="the tokenizer and the model do not match; copy both from the same source",
        )
    model.config.pad_token_id = tokenizer.pad_token_id
    model.generation_config = _greedy(model, tokenizer)
    model.train(False)
    return LanguageModel(model, tokenizer, examined.digest())


def _greedy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> GenerationConfig:
    """Return settings of plain greedy decoding, without the folder's penalties, beams and bans."""
    own: Any = model.generation_config
    end = None if own is None else own.eos_token_id
    return GenerationConfig(  # type: ignore[no-untyped-call]
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id if end is None else end,
    )


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a folder, and set its padding token if it has none.

    Raises:
        LanguageModelError: the tokenizer's files cannot be read, or the tokenizer has no end token.
    """
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        raise LanguageModelError(
            f"{folder}: the tokenizer cannot be read: {_first_line(error)}",
            hint="copy the tokenizer's files again; an old format may need tokenizer.json",
        ) from error
    if tokenizer.eos_token_id is None:
        raise LanguageModelError(
            f"{folder}: the tokenizer has no end token, but every answer must end with this token",
            hint="set eos_token in tokenizer_config.json",
        )
    if tokenizer.pad_token_id is None:
        known = tokenizer.get_vocab()
        tokenizer.pad_token = next((pad for pad in _PADS if pad in known), tokenizer.eos_token)
    return tokenizer


def check_quantisation(quantisation: Quantisation, device: torch.device) -> None:
    """Check that this machine can load quantised weights.

    Raises:
        LanguageModelError: a library or a GPU is missing, or ``device`` is not a GPU.
    """
    if quantisation == "none":
        return
    lacks = []
    if find_spec("bitsandbytes") is None:
        lacks.append("the library bitsandbytes")
    if not torch.cuda.is_available():
        lacks.append("a CUDA GPU")
    elif device.type != "cuda":
        lacks.append(f"a device such as cuda:0 instead of {device}")
    if lacks:
        raise LanguageModelError(
            f"the model cannot be loaded: {quantisation} weights need {' and '.join(lacks)}",
            hint='set model.quantised = "none"; model.precision = "bfloat16" halves the memory',
        )


def _load_model(
    folder: ModelFolder, precision: Precision, device: torch.device, quantisation: Quantisation
) -> PreTrainedModel:
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder.path,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=PRECISIONS[precision],
            output_loading_info=True,
            **_quantisation_options(precision, device, quantisation),
        )
    except Exception as error:
        raise LanguageModelError(
            f"{folder.path}: the model cannot be built from its files: {_first_line(error)}",
            hint="config.json and the weights must belong to one model",
        ) from error
    model, report = loaded
    lost = sorted({*map(str, report["missing_keys"]), *_names(report["mismatched_keys"])})
    if lost:
        # transformers would draw these tensors at random, and differently at each party.
        raise LanguageModelError(
            f"{folder.path}: {len(lost)} tensors of the model, such as {lost[0]}, are missing in "
            "the weight files or have another shape there",
            hint="config.json and the weights must belong to one model with a language-model head",
        )
    found: PreTrainedModel = model if quantisation != "none" else model.to(device)
    return found


def _quantisation_options(
    precision: Precision, device: torch.device, quantisation: Quantisation
) -> dict[str, Any]:
    if quantisation == "none":
        return {}
    settings = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_8bit=quantisation == "int8",
        load_in_4bit=quantisation == "int4",
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=PRECISIONS[precision],
    )
    return {"quantization_config": settings, "device_map": {"": device}}


def _names(mismatched: Any) -> list[str]:
    """Return names of tensors of another shape; the library gives names or tuples with shapes."""
    return [each if isinstance(each, str) else str(each[0]) for each in mismatched]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
