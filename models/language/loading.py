"""Loading a causal language model and its tokenizer from a folder of this machine, and only so.

Safetensors only, nothing fetched, no code of the folder's own run (see ``folder``).
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
from models.language.folder import ModelFolder, examine

Precision: TypeAlias = Literal["float32", "bfloat16"]
Quantisation: TypeAlias = Literal["none", "int8", "int4"]  # of the frozen base's linear weights

PRECISIONS: dict[Precision, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # who calls shows its own
# Tokens made for padding or without another use, before the end token is taken for it.
_PADS = ("<|finetune_right_pad_id|>", "<pad>", "<|pad|>", "[PAD]")


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A model with the tokenizer from the same folder.

    Padding is known by the attention mask, never by the token: where the tokenizer has no token
    for it, the end token pads, and labels must not be masked by comparing with it.
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
    """Load the model, in evaluation mode, all weights trainable unless quantised.

    Raises:
        LanguageModelError: the folder cannot be used (see ``folder.examine``), its weights are not
            those of its config, or the quantisation asked for cannot be had.
    """
    place = torch.device(device)
    check_quantisation(quantisation, place)
    examined = examine(folder)
    tokenizer = load_tokenizer(folder)
    model = _model(examined, precision, place, quantisation)
    rows = len(model.get_input_embeddings().weight)  # type: ignore[arg-type]
    if len(tokenizer) > rows:
        raise LanguageModelError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens and the model {rows}",
            hint="the two are not of one model; copy both from one place",
        )
    model.config.pad_token_id = tokenizer.pad_token_id
    model.generation_config = _greedy(model, tokenizer)
    model.train(False)
    return LanguageModel(model, tokenizer, examined.digest())


def _greedy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> GenerationConfig:
    """No penalty, beam or forbidden token that the folder has for chats: answers are measured."""
    own: Any = model.generation_config
    end = None if own is None else own.eos_token_id
    return GenerationConfig(  # type: ignore[no-untyped-call]
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id if end is None else end,
    )


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a folder; it has a token to pad with.

    Raises:
        LanguageModelError: its files cannot be read, or it has no end token.
    """
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        raise LanguageModelError(
            f"{folder}: its tokenizer cannot be read: {_first_line(error)}",
            hint="copy the tokenizer's files again; an old kind may need tokenizer.json",
        ) from error
    if tokenizer.eos_token_id is None:
        raise LanguageModelError(
            f"{folder}: its tokenizer has no end token",
            hint="name eos_token in tokenizer_config.json; an answer ends with it",
        )
    if tokenizer.pad_token_id is None:
        known = tokenizer.get_vocab()
        tokenizer.pad_token = next((pad for pad in _PADS if pad in known), tokenizer.eos_token)
    return tokenizer


def check_quantisation(quantisation: Quantisation, device: torch.device) -> None:
    """Refuse a quantisation that this machine cannot give, and say what is missing.

    Raises:
        LanguageModelError: see above.
    """
    if quantisation == "none":
        return
    lacks = []
    if find_spec("bitsandbytes") is None:
        lacks.append("the library bitsandbytes")
    if not torch.cuda.is_available():
        lacks.append("a CUDA GPU")
    elif device.type != "cuda":
        lacks.append(f"a device such as cuda:0 in place of {device}")
    if lacks:
        raise LanguageModelError(
            f"{quantisation} weights need {' and '.join(lacks)}",
            hint="set no quantisation, and bfloat16 to save half the memory of float32",
        )


def _model(
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
            **_quantised(precision, device, quantisation),
        )
    except Exception as error:
        raise LanguageModelError(
            f"{folder.path}: the model cannot be built from its files: {_first_line(error)}",
            hint="config.json and the weights must be of one model",
        ) from error
    model, report = loaded
    lost = sorted({*map(str, report["missing_keys"]), *_names(report["mismatched_keys"])})
    if lost:
        # They would be drawn at random, and every party would draw others.
        raise LanguageModelError(
            f"{folder.path}: the weights lack {len(lost)} tensors of the model, such as {lost[0]}",
            hint="config.json and the weights must be of one model with a language-model head",
        )
    found: PreTrainedModel = model if quantisation != "none" else model.to(device)
    return found


def _quantised(
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
    """Names of tensors of another shape, which the library tells alone or beside their shapes."""
    return [each if isinstance(each, str) else str(each[0]) for each in mismatched]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
