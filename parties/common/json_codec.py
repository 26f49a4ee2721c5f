"""Values as plain JSON and tensors beside it, and back by their types: nothing read is ever run."""

import json
import types
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor

Tensors: TypeAlias = dict[str, Tensor]
T = TypeVar("T")


def to_plain(value: Any, tensors: Tensors) -> Any:  # noqa: PLR0911  one for each kind
    """``value`` as JSON has it; every tensor goes to ``tensors`` and leaves its name behind."""
    if isinstance(value, np.ndarray):
        return to_plain(torch.from_numpy(value), tensors)
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().clone(memory_format=torch.contiguous_format)
        return name
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {each.name: to_plain(getattr(value, each.name), tensors) for each in fields(value)}
    if isinstance(value, dict):
        return {key: to_plain(each, tensors) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each, tensors) for each in value]
    return value


def from_plain(kind: Any, value: Any, tensors: Tensors) -> Any:  # noqa: PLR0911
    """The value of type ``kind`` that ``to_plain`` took apart."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        (chosen,) = (each for each in inner if each is not types.NoneType)
        return None if value is None else from_plain(chosen, value, tensors)
    if origin is Tensor:
        return tensors[value]
    if origin is np.ndarray:
        return tensors[value].numpy()
    if is_dataclass(origin):
        hints = get_type_hints(origin)
        return kind(**{n: from_plain(hints[n], each, tensors) for n, each in value.items()})
    if origin is dict and inner:
        return {key: from_plain(inner[1], each, tensors) for key, each in value.items()}
    if origin in (list, tuple) and inner:
        return origin(from_plain(inner[0], each, tensors) for each in value)
    if issubclass(origin, BaseModel):
        return origin.model_validate_json(json.dumps(value), strict=True)
    return origin(value) if issubclass(origin, Enum) else value
