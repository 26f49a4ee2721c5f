"""The table [requests] of an agreement: requests to forget after the training."""

from typing import Annotated, Literal

from pydantic import Field

from configs.table import ConfigTable, Count


class RequestSettings(ConfigTable):
    """Requests to forget rows, which any party can raise after the training."""

    # What every party keeps after a run: the model with the state that later requests need, or
    # nothing. Without a kept model, a later request needs a new training.
    keep: Literal["model", "nothing"] = "model"
    # Hours that an authorised request waits for others, so that several are carried out together.
    window_hours: Annotated[float, Field(ge=0)] = 0.0
    due_days: Count = 30  # days until a request is due
    # Largest loss of accuracy on validation rows; a model that loses more is not delivered.
    guard: Annotated[float, Field(ge=0, le=1)] = 0.05
    audit: Literal["none", "quick"] = "quick"  # what is measured when a request is carried out
    separate_persons: bool = False  # whether another person than the requester must approve
