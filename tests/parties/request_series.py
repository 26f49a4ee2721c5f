"""Ten requests one after another, all parties restarted between them, against one Retrain."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic

from request_federation import RequestFederation

from parties.requests.lifecycle import RequestState
from parties.vertical.kept_model import kept_rows, party_models

IDLE = ("reading data", "waiting for")  # phases that change no model


@dataclass(frozen=True)
class Series:
    """The outcome of a series of requests.

    Attributes:
        rows: number of rows of each request.
        accuracy: accuracy on test rows after the last request.
        trained: accuracy on test rows before the first request.
        retrain: accuracy on the same test rows of one Retrain without the rows of all requests.
        states: the state in which each request ended.
        methods: the method that carried out each request.
        seconds: duration of each request, from the start of the processes to the last receipt.
    """

    rows: tuple[int, ...]
    accuracy: float
    trained: float
    retrain: float
    states: tuple[str, ...]
    methods: tuple[str, ...]
    seconds: tuple[float, ...]

    @property
    def difference(self) -> float:
        """Accuracy after the series minus that of the Retrain, in points."""
        return 100 * (self.accuracy - self.retrain)


class RequestSeries:
    """One training, from whose copies series of requests and Retrains start."""

    def __init__(self, federation: RequestFederation, sizes: Sequence[int]) -> None:
        self._federation, self._sizes = federation, tuple(sizes)
        self.trained = federation.folder / "trained"
        if not (self.trained / "done").exists():
            shutil.rmtree(self.trained, ignore_errors=True)
            federation.train(self.trained, 3600)
            (self.trained / "done").write_text("")

    def run(self, seed: int, report: Callable[[str], None]) -> Series:
        """Forget random rows request by request; the origins of the requests alternate."""
        federation, out = self._federation, self._federation.folder / "series"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.trained, out)
        chosen, names = self._draw(seed), list(federation.roles)
        states, methods, seconds = list[str](), list[str](), list[float]()
        audit: dict[str, str] = {}
        trained = 0.0
        for number, rows in enumerate(chosen):
            began = monotonic()
            request = federation.request(names[number % len(names)], out, rows)
            self._carry_out(federation, out, request)
            audit = self._audit(federation, out, request)
            trained = trained or float(audit["test_before"])
            view = federation.view(federation.hub, out, request)
            states.append(view.state.value)
            methods.append(view.method)
            seconds.append(round(monotonic() - began, 1))
            report(f"request {number + 1} of {len(chosen)}: {len(rows)} rows, {seconds[-1]} s, "
                   f"test accuracy {audit['test_after']}")  # fmt: skip
        return Series(
            self._sizes, float(audit["test_after"]), trained, self.retrain(seed, report),
            tuple(states), tuple(methods), tuple(seconds),
        )  # fmt: skip

    def retrain(self, seed: int, report: Callable[[str], None]) -> float:
        """Accuracy on test rows of one Retrain without the rows of all requests of ``seed``."""
        cached = self._federation.folder / f"retrain {seed}.json"
        if not cached.exists():
            federation = self._federation.changed("unlearning.method='retrain-paired'")
            out = federation.folder / "retrained"
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(self.trained, out)
            rows = [row for each in self._draw(seed) for row in each]
            request = federation.request(federation.hub, out, rows)
            self._carry_out(federation, out, request)
            accuracy = self._audit(federation, out, request)["test_after"]
            report(f"Retrain without {len(rows)} rows: test accuracy {accuracy}")
            cached.write_text(json.dumps(accuracy))
        return float(json.loads(cached.read_text()))

    def replays(self, seed: int, report: Callable[[str], None]) -> list[bool]:
        """Carry out the requests of ``run``, and replay each one; return which were equal."""
        federation = self._federation.changed("requests.replay_days=30")
        out, equal = federation.folder / "replays", list[bool]()
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.trained, out)
        names = list(federation.roles)
        for number, rows in enumerate(self._draw(seed)):
            request = federation.request(names[number % len(names)], out, rows)
            self._carry_out(federation, out, request)
            codes = federation.replay(out, request, seconds=1800)
            equal.append(not any(codes.values()))
            report(f"replay {number + 1} of {len(self._sizes)}: exit codes {codes}")
        return equal

    def other_steps(self, method: str) -> dict[str, int]:
        """Steps of the phases beside those of ``method``, which the active party drove, in ``run``.

        Raises:
            AssertionError: a request did not run the method.
        """
        federation = self._federation
        log = federation.output(federation.hub, federation.folder / "series")
        found = dict[str, int]()
        for line in log.read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "progress" and not event["phase"].startswith(IDLE):
                steps = max(event["total"] or 0, event["done"])
                found[event["phase"]] = max(found.get(event["phase"], 0), steps)
        own = [found.pop(method, 0), found.pop(f"reference of {method}", 0)]
        assert any(own), f"the log has no step of {method}"
        return found

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Bytes of what each party keeps for later requests, and of its own saved model."""
        return kept_sizes(self._federation, self.trained)

    def _draw(self, seed: int) -> list[list[int]]:
        """The rows of each request; no row is in two requests."""
        store = party_models(self._federation.party(self._federation.hub, self.trained))
        rows = sorted(kept_rows(store).values())
        Random(seed).shuffle(rows)
        starts = [sum(self._sizes[:number]) for number in range(len(self._sizes))]
        assert sum(self._sizes) < len(rows)
        return [
            sorted(rows[start : start + size])
            for start, size in zip(starts, self._sizes, strict=True)
        ]

    def _carry_out(self, federation: RequestFederation, out: Path, request: str) -> None:
        """Start all processes, wait for the receipts, and stop all processes."""
        with federation.serve(out) as service:
            federation.wait_certified(service, request, 1800)
            codes = service.stop()
        assert not any(codes.values()), f"{codes}: {federation.notes(out)}"

    def _audit(self, federation: RequestFederation, out: Path, request: str) -> dict[str, str]:
        view = federation.view(federation.hub, out, request)
        assert view.state is RequestState.CERTIFIED, view
        return federation.figures(out, request)


def kept_sizes(federation: RequestFederation, out: Path) -> dict[str, tuple[int, int]]:
    """Bytes of what each party keeps for later requests, and of its own saved model."""
    return {
        name: (
            sum(each.stat().st_size for each in (federation.state(name, out) / "models").iterdir()),
            (federation.state(name, out) / "model.safetensors").stat().st_size,
        )
        for name in federation.roles
    }
