"""Conversion of dataclasses to JSON and back; tensors are stored apart; reading runs no code."""

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


def to_json_value(value: Any, tensors: Tensors) -> Any:  # noqa: PLR0911  one for each kind
    """Return ``value`` as JSON, with each tensor replaced by the tensor's name in ``tensors``.

    Args:
        value: dataclasses, models, enums, lists, dictionaries, tensors and arrays ``[...]``.
        tensors: a dictionary to which this function adds a copy of each tensor of ``value``,
            ``[...]`` of any shape.
    """
    if isinstance(value, np.ndarray):
        return to_json_value(torch.from_numpy(value), tensors)
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().clone(memory_format=torch.contiguous_format)
        return name
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {
            each.name: to_json_value(getattr(value, each.name), tensors) for each in fields(value)
        }
    if isinstance(value, dict):
        return {key: to_json_value(each, tensors) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(each, tensors) for each in value]
    return value


def from_json_value(kind: Any, value: Any, tensors: Tensors) -> Any:  # noqa: PLR0911  one for each kind
    """Return the value of type ``kind`` that ``to_json_value`` encoded.

    Args:
        kind: type of the value.
        value: the JSON value.
        tensors: the tensors of the value by name, ``[...]`` of any shape.
    """
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        (chosen,) = (each for each in inner if each is not types.NoneType)
        return None if value is None else from_json_value(chosen, value, tensors)
    if origin is Tensor:
        return tensors[value]
    if origin is np.ndarray:
        return tensors[value].numpy()
    if is_dataclass(origin):
        hints = get_type_hints(origin)
        parameters = dict(zip(getattr(origin, "__parameters__", ()), inner, strict=False))
        kinds = {name: parameters.get(hint, hint) for name, hint in hints.items()}
        # Not ``kind(...)``: a generic alias cannot set its attribute on a frozen class with slots.
        given = {n: from_json_value(kinds[n], each, tensors) for n, each in value.items()}
        return origin(**given)  # type: ignore[operator]
    if origin is dict and inner:
        return {key: from_json_value(inner[1], each, tensors) for key, each in value.items()}
    if origin in (list, tuple) and inner:
        return origin(from_json_value(inner[0], each, tensors) for each in value)
    if issubclass(origin, BaseModel):
        return origin.model_validate_json(json.dumps(value), strict=True)
    return origin(value) if issubclass(origin, Enum) else value
