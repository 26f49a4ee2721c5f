"""Residues of forgotten rows: found before the purge, in memory and in files, and not after it."""

from pathlib import Path

from three_parties import forget_some, open_split_model

from parties.vertical.purge import purge_request, search_residues
from protocol import vfl_pb2


def test_residues_are_found_before_the_purge_and_not_after(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, _):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        forget_some(split_model)
        split_model.once("outputs", dict, lambda: {"logits": split_model.logits(vfl_pb2.FORGOTTEN)})
        split_model.checkpoint()
        residues = search_residues(split_model)
        for name in ("hub", "left", "right"):
            assert {"row map", "row sets", "features", "copy 'original' of the model"} <= set(
                residues[name]
            )
            assert any(place.startswith("row map in checkpoint") for place in residues[name])
            assert any(place.startswith("copies of the model in") for place in residues[name])
        assert "labels" in residues["hub"]
        assert any(place.startswith("labels in checkpoint") for place in residues["hub"])
        assert any(place.startswith("outputs in the journal") for place in residues["hub"])
        assert "embeddings or gradients of the last batch" in residues["hub"]


def test_purge_leaves_no_residue(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, _):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        split_model.checkpoint()
        forget_some(split_model)
        purge_request(split_model, "request")
        assert search_residues(split_model) == {"hub": [], "left": [], "right": []}
