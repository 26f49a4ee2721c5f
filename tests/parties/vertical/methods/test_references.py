"""The reference models of the counterfactual targets: h⁻ knows nothing of D_u, h⁺ does."""

from pathlib import Path

import torch
from three_parties import open_split_model, start_training

from parties.vertical.engine.requests import select_request_rows
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.methods.counterfactual import References
from parties.vertical.methods.network_run import NetworkRun
from protocol import vfl_pb2

FORGETS = {"unlearn": ({"name": "some", "classes": ["a", "b", "c"], "fraction": 0.3},)}


def fitted(
    split_model: SplitModel, embeddings: torch.Tensor, probe: torch.Tensor
) -> list[torch.Tensor]:
    """The outputs of h⁺ and h⁻, trained for two epochs on ``embeddings``, on those of ``probe``."""
    references = References(NetworkRun(split_model), embeddings)
    for epoch in range(2):
        references.fit(epoch)
    return list(references.outputs(references.models, probe))


def test_reference_without_the_forgotten_rows_depends_on_none_of_them(tmp_path: Path) -> None:
    with open_split_model(tmp_path, **FORGETS) as (split_model, _):
        (chosen,) = select_request_rows(
            split_model.party, split_model.state.features.rows, split_model.rows, split_model.labels
        )
        start_training(split_model, "original")
        split_model.forget(chosen.rows)
        run = NetworkRun(split_model)
        (sets,) = run.sets
        embeddings = run.embeddings(vfl_pb2.TRAIN_ROWS)
        before = fitted(split_model, embeddings, embeddings)
        changed = embeddings.clone()
        changed[0, torch.isin(torch.from_numpy(sets.train), torch.from_numpy(sets.forgotten))] += 1
        split_model.learned_labels[sets.forgotten] = 0
        after = fitted(split_model, changed, embeddings)
    assert not torch.equal(before[0], before[1])
    assert not torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])
