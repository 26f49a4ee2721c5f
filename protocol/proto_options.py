"""Custom options of ``vfl.proto``: the rules that stand beside the fields, messages and words."""

from typing import Any


def read_option(place: Any, option: Any) -> Any:
    """Return the value of a custom option; None if the option is not set.

    ``place`` is the descriptor of a message, a field or an enum's value, and ``option`` is the
    extension in ``vfl_pb2`` that declares the option.
    """
    options = place.GetOptions()
    return options.Extensions[option] if options.HasExtension(option) else None
