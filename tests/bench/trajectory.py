"""Figures: the losses of training between parties, bit by bit those of one process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np
import torch
from growth import BATCH, write
from ledger import Row
from one_process import OneProcess, one_process
from steps import open_split_model
from torch.nn.functional import cross_entropy

from parties.session import handshake
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from parties.session.simulation import SimulationPlan, trial_certificates
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import DESCEND
from parties.vertical.engine.training_loop import BatchLoss, TrainingBatch
from parties.vertical.passive import run_passive
from parties.vertical.resume import start_split_model
from parties.vertical.setup import set_up_party
from protocol import vfl_pb2
from protocol.errors import ProtocolError

ROWS, EPOCHS = 6000, 5


def trajectory(tell: Callable[[str], None]) -> Iterator[Row]:
    """One to three passive parties, over memory and over mutual TLS."""
    for passives in (1, 2, 3):
        tell(f"trajectory: {passives} passive parties")
        with TemporaryDirectory() as folder, TemporaryDirectory() as out:
            config = write(Path(folder), ROWS, passives)
            wanted = _alone(one_process(config, Path(folder)))
            for line, meet in (("memory", _in_memory), ("mutual TLS", _apart)):
                with meet(config, Path(folder), Path(out) / line) as leading:
                    found = _losses(leading)
                other = sum(a != b for a, b in zip(found, wanted, strict=True))
                title = f"losses of {len(wanted)} steps that differ from one process's"
                yield Row(f"{title}, {passives} passive, {line}", other, "", "0", other == 0)


@contextmanager
def _apart(config: Path, data: Path, out: Path) -> Iterator[SplitModel]:
    with open_split_model(config, data, (), out) as (leading, _):
        yield leading


@contextmanager
def _in_memory(config: Path, data: Path, out: Path) -> Iterator[SplitModel]:
    with trial_certificates(SimulationPlan(config, (), out, data)) as (read, _, keys):
        place, port = StartOptions(out, data, keys), MemoryPort()

        def answer(name: str) -> None:
            us = set_up_party(read, name, place, lambda event: None)
            with suppress(ProtocolError):  # what was to be measured is measured
                run_passive(us, lambda: port.connect(name))

        threads = [Thread(target=answer, args=(name,)) for name in read.agreement.passive]
        for thread in threads:
            thread.start()
        us = set_up_party(read, read.agreement.active, place, lambda event: None)
        hub, offers = handshake.accept_spokes(us, port)
        yield start_split_model(us, hub, offers)
        hub.abort("over", "measured")
        hub.close()
        for thread in threads:
            thread.join()


def _losses(leading: SplitModel) -> list[float]:
    losses: list[float] = []

    def act(batch: TrainingBatch) -> BatchLoss:
        loss = cross_entropy(batch.logits, batch.labels)
        losses.append(loss.item())
        return BatchLoss(loss, DESCEND)

    leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
    for epoch in range(1, EPOCHS + 1):
        leading.loop.run_epoch(vfl_pb2.TRAIN, vfl_pb2.TRAIN_ROWS, epoch, BATCH, act)
    return losses


def _alone(model: OneProcess) -> list[float]:
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
