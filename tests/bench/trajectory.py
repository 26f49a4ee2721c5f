"""Figures: the losses of training between parties equal those of one process bit for bit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np
import torch
from bench.ledger import Row
from growth import BATCH, write
from one_process import OneProcess, one_process
from steps import open_split_model
from three_parties import start_training
from torch.nn.functional import cross_entropy

from parties.cli.modes import SCHEMAS
from parties.session import handshake
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from parties.session.simulation import SimulationPlan, trial_certificates
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.training_loop import DESCEND, BatchLoss, TrainingBatch
from parties.vertical.passive import run_passive
from parties.vertical.resume import start_split_model
from parties.vertical.setup import set_up_party
from protocol import vfl_pb2
from protocol.errors import ProtocolError

ROWS, EPOCHS = 6000, 5


def trajectory(report: Callable[[str], None]) -> Iterator[Row]:
    """Compare one to three passive parties, over memory lines and over mutual TLS."""
    for passives in (1, 2, 3):
        report(f"trajectory: {passives} passive parties")
        with TemporaryDirectory() as folder, TemporaryDirectory() as out:
            config = write(Path(folder), ROWS, passives)
            expected = _one_process(one_process(config, Path(folder)))
            for line, open_parties in (("memory", _in_memory), ("mutual TLS", _over_tls)):
                with open_parties(config, Path(folder), Path(out) / line) as split_model:
                    losses = _losses(split_model)
                different = sum(a != b for a, b in zip(losses, expected, strict=True))
                title = f"losses of {len(expected)} steps that differ from one process's"
                yield Row(
                    f"{title}, {passives} passive, {line}", different, "", "0", different == 0
                )


@contextmanager
def _over_tls(config: Path, data: Path, out: Path) -> Iterator[SplitModel]:
    with open_split_model(config, data, (), out) as (split_model, _):
        yield split_model


@contextmanager
def _in_memory(config: Path, data: Path, out: Path) -> Iterator[SplitModel]:
    with trial_certificates(SimulationPlan(config, (), out, data, schemas=SCHEMAS)) as (
        config_file,
        _,
        keys,
    ):
        options, port = StartOptions(out, data, keys), MemoryPort()

        def run(name: str) -> None:
            party = set_up_party(config_file, name, options, lambda event: None)
            with suppress(ProtocolError):  # the hub ends the line after the measurement
                run_passive(party, lambda: port.connect(name))

        threads = [Thread(target=run, args=(name,)) for name in config_file.agreement.passive]
        for thread in threads:
            thread.start()
        party = set_up_party(config_file, config_file.agreement.active, options, lambda event: None)
        hub, offers = handshake.accept_spokes(party, port)
        yield start_split_model(party, hub, offers)
        hub.abort("over", "measured")
        hub.close()
        for thread in threads:
            thread.join()


def _losses(split_model: SplitModel) -> list[float]:
    losses: list[float] = []

    def act(batch: TrainingBatch) -> BatchLoss:
        loss = cross_entropy(batch.logits, batch.labels)
        losses.append(loss.item())
        return BatchLoss(loss, DESCEND)

    start_training(split_model, "original")
    for epoch in range(1, EPOCHS + 1):
        split_model.loop.run_epoch(vfl_pb2.TRAIN, vfl_pb2.TRAIN_ROWS, epoch, BATCH, act)
    return losses


def _one_process(model: OneProcess) -> list[float]:
    parameters = [p for network in model.networks.values() for p in network.parameters()]
    descent, losses = torch.optim.Adam(parameters), list[float]()
    for epoch in range(1, EPOCHS + 1):
        order = model.rows.shuffled(vfl_pb2.TRAIN_ROWS, "original", epoch)
        for batch in np.split(order, range(BATCH, len(order), BATCH)):
            descent.zero_grad()
            loss = cross_entropy(model.logits(batch), model.labels[batch])
            losses.append(loss.item())
            loss.backward()
            descent.step()
    return losses
