"""Residues of forgotten rows: found before the purge, in memory and in files, and not after it."""

from pathlib import Path

from three_parties import forget_some, open_split_model

from parties.vertical.purge import purge_request, search_residues
from protocol import vfl_pb2


def test_before_the_purge_everybody_finds_them_and_after_it_nobody(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (leading, _):
        leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        leading.keep_copy("original", vfl_pb2.TRAIN)
        forget_some(leading)
        leading.once("outputs", dict, lambda: {"logits": leading.logits(vfl_pb2.FORGOTTEN)})
        leading.checkpoint()
        found = search_residues(leading)
        for name in ("hub", "left", "right"):
            assert {"row map", "row sets", "features", "copy 'original' of the model"} <= set(
                found[name]
            )
            assert any(place.startswith("row map in checkpoint") for place in found[name])
            assert any(place.startswith("copies of the model in") for place in found[name])
        assert "labels" in found["hub"]
        assert any(place.startswith("labels in checkpoint") for place in found["hub"])
        assert any(place.startswith("outputs in the journal") for place in found["hub"])
        assert "embeddings or gradients of the last batch" in found["hub"]


def test_a_purge_leaves_nothing(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (leading, _):
        leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        leading.keep_copy("original", vfl_pb2.TRAIN)
        leading.checkpoint()
        forget_some(leading)
        purge_request(leading, "request")
        assert search_residues(leading) == {"hub": [], "left": [], "right": []}
