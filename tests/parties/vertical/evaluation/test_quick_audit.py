"""The quick audit of a request for very few rows."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from parties.vertical.engine.split_model import SplitModel
from parties.vertical.evaluation.quick_audit import Readout, quick_audit


@pytest.mark.parametrize(("logit", "auc"), [(5.0, 1.0), (-5.0, 0.0)])
def test_one_forgotten_row_does_not_stand_out(logit: float, auc: float) -> None:
    rows = SimpleNamespace(
        **{name: torch.tensor([i]) for i, name in enumerate(("validation", "test", "forgotten"))}
    )
    agreement = SimpleNamespace(labels=SimpleNamespace(task="classification"))
    stub: Any = SimpleNamespace(rows=rows, labels=torch.zeros(3).long(), agreement=agreement)
    zeros = torch.zeros(1, 2)
    readout = Readout(validation=zeros, test=zeros, forgotten=torch.tensor([[logit, 0.0]]))
    found = quick_audit(cast(SplitModel, stub), readout, readout)
    assert found.membership_auc == auc
    assert found.membership_error is not None
    assert abs(auc - 0.5) < found.membership_error
