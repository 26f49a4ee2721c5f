"""A request's life with a loss of power just before every ``fsync`` of every party.

One life is recorded. Each image has the files of all parties at one moment: at the party that loses
its power, what the loss leaves; at the others, what a process leaves that is killed. From each
image all parties start again, and must end as the life without a loss.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any, Self

from recorded_disk import (
    NO_LOSS,
    Call,
    Files,
    Loss,
    RecordedDisk,
    read_calls,
    read_files,
    wait_for_record,
    write_files,
)
from request_federation import Service
from request_kills import RequestKills, spread_numbers
from watched_party import Recording, start_watched

from parties.common.errors import PartyError
from parties.vertical.kept_model import kept_rows, party_models
from protocol.errors import ProtocolError

ALL = "all parties"  # lose their power at the same moment
LOSSES = ("all", "content", "names", "some", "others")  # what is lost; some, others: at random
SECOND = 50  # row of the common order of the second request
LIMIT = 120.0  # seconds of a life
RECOVERED, NAMED, WRONG = "recovered", "named error", "wrong"


@dataclass(frozen=True)
class Image:
    """A loss of power.

    Attributes:
        party: the party that loses its power, or ``ALL``.
        boundary: number of the ``fsync`` of the party, from 1, just before which this happens; one
            more than their number: after the end of the life.
        loss: what is lost of that which was not synchronised, a value of ``LOSSES``.
    """

    party: str
    boundary: int
    loss: str


@dataclass(frozen=True)
class Restart:
    """What became of an image.

    Attributes:
        image: the image.
        digest: SHA-256 of the files of all parties.
        result: ``RECOVERED``, ``NAMED`` (an error with a hint, the others unchanged) or ``WRONG``.
        seconds: duration of the life that follows.
        notes: what was wrong, or the error.
    """

    image: Image
    digest: str
    result: str
    seconds: float
    notes: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> Self:
        """The outcome of its line in the record."""
        content = json.loads(line)
        content["image"] = Image(**content["image"])
        return cls(**content | {"notes": tuple(content["notes"])})


class PowerLosses:
    """The losses of power in the life of one request; finished ones are remembered in ``folder``.

    Attributes:
        boundaries: the times of the calls of ``fsync``, by party, and the end of the life.
        finished: the outcomes so far.

    Args:
        kills: the parties, and their life without a loss.
        folder: folder of the record.
        ignored: as of ``RecordedDisk``: a fault that must be found.
    """

    def __init__(self, kills: RequestKills, folder: Path, ignored: Sequence[str] = ()) -> None:
        self._ignored = ignored
        self._kills, self._federation, self._folder = kills, kills.federation, folder
        self._record = folder / f"{' '.join(['images', *ignored])}.jsonl"
        if not (folder / "recorded.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self._record_life()
        self._calls = {name: read_calls(self._log(name)) for name in self._federation.roles}
        self.boundaries = {name: self._disk(name).synchronisations() for name in self._calls}
        end = max(call.time for calls in self._calls.values() for call in calls)
        for times in self.boundaries.values():
            times.append(end + 1)
        self.boundaries[ALL] = sorted({time for each in self.boundaries.values() for time in each})
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        self.finished = [Restart.read(line) for line in lines]

    def spread(self) -> list[Image]:
        """An image for each loss at each boundary.

        The first fifth of the list has every boundary once, with losses in turn. Each beginning of
        the list is spread evenly over the boundaries.
        """
        places = [
            (party, number)
            for party, times in self.boundaries.items()
            for number in range(1, len(times) + 1)
        ]
        return [
            Image(*places[at], LOSSES[(number + turn) % len(LOSSES)])
            for turn in range(len(LOSSES))
            for number, at in enumerate(spread_numbers(len(places)))
        ]

    def run(self, images: Sequence[Image]) -> Iterator[Restart]:
        """Restart from each image that is not finished; an image with equal files counts once."""
        done = {each.image for each in self.finished}
        known = {each.digest: each for each in self.finished}
        for image in images:
            if image in done:
                continue
            files = self.files(image)
            digest = _digest(files)
            if digest in known:
                same = known[digest]
                outcome = Restart(image, digest, same.result, 0.0, same.notes)
            else:
                outcome = self._restart(image, files, digest)
            known[digest] = outcome
            with self._record.open("a") as record:
                record.write(json.dumps(asdict(outcome)) + "\n")
            self.finished.append(outcome)
            yield outcome

    def files(self, image: Image) -> dict[str, Files]:
        """The files of all parties in an image."""
        time = self.boundaries[image.party][image.boundary - 1]
        found = {}
        for name in self._federation.roles:
            disk, loses = self._disk(name), image.party in (name, ALL)
            disk.advance(time, inclusive=not loses)
            found[name] = disk.files(_loss(image, name) if loses else NO_LOSS)
        return found

    # --- the recorded life -----------------------------------------------------------------------

    def _record_life(self) -> None:
        federation, out = self._federation, self._folder / "recorded"
        shutil.copytree(self._kills.trained, out)
        recordings = {name: Recording(self._log(name)) for name in federation.roles}
        with federation.serve(out, recordings) as service:
            federation.wait_certified(service, self._kills.request)
            service.stop()
            for name in federation.roles:
                wait_for_record(self._log(name))
            self._calls = {name: read_calls(self._log(name)) for name in federation.roles}
            for name in federation.roles:
                disk = self._disk(name)
                disk.advance(float("inf"), inclusive=True)
                replayed, found = disk.files(NO_LOSS), read_files(federation.state(name, out))
                wrong = {path for path, each in replayed.items() if found.get(path, b"-") != each}
                wrong |= found.keys() - replayed.keys()
                assert not wrong, f"the replayed files of {name} differ: {wrong}"
            failures = self._kills.judge(service)
        assert not failures, failures
        (self._folder / "recorded.json").write_text("{}")

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.calls"

    def _disk(self, name: str) -> RecordedDisk:
        calls: list[Call] = self._calls[name]
        start = read_files(self._federation.state(name, self._kills.trained))
        place = self._federation.state(name, self._folder / "recorded")
        return RecordedDisk(place, start, calls, self._ignored)

    # --- restarts --------------------------------------------------------------------------------

    def _restart(self, image: Image, files: dict[str, Files], digest: str) -> Restart:
        federation, out = self._federation, self._folder / "lost"
        shutil.rmtree(out, ignore_errors=True)
        for each in self._folder.glob("lost *.jsonl"):
            each.unlink()
        for name, content in files.items():
            write_files(federation.state(name, out), content)
        began = monotonic()
        with federation.serve(out) as service:
            try:
                for name in federation.roles:
                    self._wait_joined(service, name)
                federation.wait_certified(service, self._kills.request, LIMIT)
                notes = self._kills.judge(service)
                result = WRONG if notes else RECOVERED
            except AssertionError as error:
                result, notes = self._ended(service, files, str(error))
        if result == WRONG:
            kept = self._folder / f"wrong {image.party} {image.boundary} {image.loss}"
            shutil.rmtree(kept, ignore_errors=True)
            out.rename(kept)
            for each in self._folder.glob("lost *.jsonl"):
                each.rename(kept / each.name)
        return Restart(image, digest, result, round(monotonic() - began, 2), tuple(notes))

    def _wait_joined(self, service: Service, name: str) -> None:
        """Wait until a party has joined a session.

        Raises:
            AssertionError: a process ended, or the party did not join in time.
        """
        deadline = monotonic() + LIMIT
        while self._federation.joins(name, service.out) < 1:
            ended = [n for n, each in service.running.items() if not each.is_alive()]
            notes = self._federation.notes(service.out)
            assert not ended, f"ended: {ended}; {notes}"
            assert monotonic() < deadline, f"{name} did not join: {notes}"
            sleep(0.02)

    def _ended(
        self, service: Service, files: dict[str, Files], error: str
    ) -> tuple[str, list[str]]:
        """Whether each process that ended named its error, and the others kept their models."""
        ended = {name for name, each in service.running.items() if not each.is_alive()}
        notes = []
        for name in ended:
            lines = self._federation.output(name, service.out).read_text().splitlines()
            events = [json.loads(line) for line in lines if line.startswith("{")]
            errors: list[Any] = [each for each in events if each.get("event") == "error"]
            if not errors or not errors[-1].get("hint"):
                return WRONG, [error]
            notes.append(f"{name}: {errors[-1]['message']}; {errors[-1]['hint']}")
        for name in files.keys() - ended:
            now = read_files(self._federation.state(name, service.out))
            kept = {path: each for path, each in files[name].items() if _is_model(path)}
            if any(now.get(path) != each for path, each in kept.items()):
                return WRONG, [error, f"the model of {name} changed"]
        return (NAMED if ended else WRONG), notes or [error]


@dataclass(frozen=True)
class AskedLosses:
    """Losses of power while ``vfl unlearn request`` records a request.

    Attributes:
        boundaries: number of calls of ``fsync``.
        images: number of images from which the journal was opened.
        present: number of those in which the request was in the journal.
        lost: images without the request although the command had printed its ID.
        wrong: images in which something else was wrong.
    """

    boundaries: int
    images: int
    present: int
    lost: tuple[str, ...]
    wrong: tuple[str, ...]


def ask_with_losses(kills: RequestKills, folder: Path, ignored: Sequence[str] = ()) -> AskedLosses:
    """Record a second request at a passive party, and open its journal from each image."""
    federation, name, out = kills.federation, "right", folder / "asked"
    shutil.copytree(kills.trained, out)
    store = party_models(federation.party(name, kills.trained))
    person = {row: each.decode() for each, row in kept_rows(store).items()}[SECOND]
    log, output = folder / "asked.calls", folder / "asked.jsonl"
    words = ["unlearn", "request", str(federation.config), "--party", name, "--out", str(out)]
    words += ["--certificates", str(federation.keys), "--id", person, "--format", "json"]
    process = start_watched(words, output, Recording(log), program="vfl")
    process.join(LIMIT)
    assert process.exitcode == 0, output.read_text()
    wait_for_record(log)
    asked = json.loads(output.read_text())["request"]
    start, calls = read_files(federation.state(name, kills.trained)), read_calls(log)
    disk = RecordedDisk(federation.state(name, out), start, calls, ignored)
    told = next(call.time for call in calls if call.writes(asked.encode(), output))
    times = [*disk.synchronisations(), calls[-1].time + 1]
    present, lost, wrong = 0, list[str](), list[str]()
    for number, time in enumerate(times, 1):
        disk.advance(time, inclusive=False)
        for loss in LOSSES:
            where = f"before fsync {number} of {len(times) - 1}, {loss}"
            files = disk.files(_loss(Image(name, number, loss), name))
            shutil.rmtree(folder / "lost", ignore_errors=True)
            write_files(federation.state(name, folder / "lost"), files)
            try:
                with federation.local(name, folder / "lost") as local:
                    found = {each.id for each in local.desk.requests()}
                    subjects = local.subjects.of(asked) or []
            except (PartyError, ProtocolError) as error:
                wrong.append(f"{where}: {error}")
                continue
            present += asked in found
            if asked not in found and time > told:
                lost.append(where)
            if found - {asked} != {kills.request} or (asked in found) is not (len(subjects) == 1):
                wrong.append(f"{where}: {found}, {len(subjects)} subjects")
    images = len(times) * len(LOSSES)
    return AskedLosses(len(times) - 1, images, present, tuple(lost), tuple(wrong))


def _is_model(path: str) -> bool:
    return path.endswith((".sealed", ".safetensors"))


def _loss(image: Image, name: str) -> Loss:
    if image.loss in ("some", "others"):
        return Loss(random=Random(f"{image.loss} {image.party} {image.boundary} {name}"))
    return Loss(names=image.loss == "content", data=image.loss == "names")


def _digest(files: dict[str, Files]) -> str:
    digest = sha256()
    for name, each in sorted(files.items()):
        for path, content in each.items():
            size = "folder" if content is None else str(len(content))
            digest.update(f"{name}/{path} {size}\n".encode() + (content or b""))
    return digest.hexdigest()
