"""Figures: requests to forget that are carried out months after the training, by real processes.

``python tests/bench requests`` measures all parts, each of which is a section of its own, such as
``"request kills"``, with mutual TLS and SIGKILL:

- *kills*: one life of a request per boundary (message, file, commit of the journal) of each party,
  in which the party kills itself at this boundary and is started again
  (``tests/parties/request_kills.py``). A life fails if the request is lost or carried out twice, if
  a file of the final models differs from that of the life without a kill, if a receipt does not
  verify at a party, or if a forgotten row is found;
- *client kills*, *text kills*: the same for the request of a client of a server, in the horizontal
  mode (``tests/parties/client_federation.py``) and in the language mode
  (``tests/parties/language/kept_ferries.py``), with one kill;
- *changes*: every bit of the receipt and of the exported journal of the life without a kill, and
  bytes of the records in a journal's file (``tests/parties/request_damage.py``);
- *power loss*: one life of a request is recorded, call by call; just before each ``fsync`` of each
  party, and of all together, the files of the party are set back to what a loss of power leaves, in
  five ways, and all parties start again (``tests/parties/power_loss.py``). The same for the command
  that records a request. Needs ``strace``;
- *series*: ten requests of 10 to 200 rows one after another, all processes restarted between them,
  against one Retrain without all of these rows (``tests/parties/request_series.py``);
- *replays*: ten requests of each data set, each of which ``vfl replay`` carries out again at all
  parties, inside ``requests.replay_days``;
- *steps*: the training steps that the active party drives after a restart of all processes, beside
  those of the method; a Retrain would be among them;
- *size*: the sealed files that each party keeps for later requests, over its own saved model. The
  limit is that of all parties together: the IDs and row maps of a party with a small part of the
  model may be larger than this part;
- *absence*: a request while a passive party is down, with predictions over HTTP, against the same
  request with all parties (``tests/parties/absence.py``);
- *weeks*: ten weeks, each with 3 % new rows, one to three requests, an absence and a restart
  (``tests/parties/weeks.py``), against a training from the beginning on the final rows;
- *predictions*: ten a second over HTTP for ten minutes, while three requests run and one party is
  killed and restarted twice (``tests/parties/request_predictions.py``);
- *search*: what a search without the project's code finds in all files of all parties
  (``tests/parties/plain_search.py``), before and after a request.

Finished parts are kept in ``build/requests``, by the digest of the code that they measured. After a
stop, the same command continues. ``VFL_BENCH_LIVES``, ``VFL_BENCH_PAIRS``, ``VFL_BENCH_IMAGES`` and
``VFL_BENCH_SEEDS`` limit the enumerations: the first lives and images are spread evenly over all
boundaries, and the rows name how many there are in all.
"""

import json
import os
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from math import inf, sqrt
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory

from absence import Absence, live_through_absence
from bench.ledger import Row, at_most, shown
from bench.scopes import SECTIONS
from client_federation import ClientKills
from kills import ROOT
from plain_search import search_persons
from power_loss import LOSSES, NAMED, RECOVERED, WRONG, PowerLosses, ask_with_losses
from request_damage import RequestDamage
from request_federation import RequestFederation
from request_kills import RequestKills
from request_predictions import TrialPlan, run_trial
from request_series import RequestSeries, Series
from scipy.stats import t as student
from weeks import Life, Weeks

from parties.experiments.provenance import Provenance
from tests.parties.language.kept_ferries import TextKills

SIZES = (10, 10, 20, 20, 30, 40, 60, 80, 130, 200)  # rows of each request of a series
SEEDS = range(int(os.environ.get("VFL_BENCH_SEEDS", "5")))
SHARE = 0.15  # of the rows of Adult: all rows would take hours on two cores
METHODS = ("retrain-local", "fedora")  # fedora is the default of the agreements
COMMON = ("unlearn=[]", "limits.checkpoint_seconds=5")
POINT = 1.0  # largest difference of the mean accuracy from that of a Retrain, in points
LEAK = 0.05  # largest difference of the AUC of the attack from that with all parties
KEPT = 4.0  # largest size of what is kept, over that of the model
IMAGES = int(os.environ.get("VFL_BENCH_IMAGES", "10000"))  # losses of power at most
LIVES = int(os.environ.get("VFL_BENCH_LIVES", "10000"))  # lives with one kill at most
PAIRS = int(os.environ.get("VFL_BENCH_PAIRS", "200"))  # lives with two kills
CLIENT_KILLS = {
    "client request kills": ("horizontal", ClientKills),
    "text request kills": ("language", TextKills),
}
ABSENT_SHARE = 0.05  # of the training rows, in a request while a party is absent
WEEKS, FIRST = 10, 0.7  # weeks, and the fraction of the rows in the first training
SECONDS, RATE = 600.0, 10.0  # duration of the predictions, and predictions a second

Report = Callable[[str], None]
Builder = Callable[[Path, Path, str, int], RequestFederation]


def request_sections(data: Path) -> dict[str, Callable[[Report], Iterator[Row]]]:
    """Return the parts by the name of their section."""
    federations = {"digits": _digits, "Adult": _adult}
    return {
        "request kills": lambda report: _kills(_lives(), report),
        **{
            section: partial(_client_kills, section, *each)
            for section, each in CLIENT_KILLS.items()
        },
        "request changes": lambda report: _damage(_lives(), _folder(), report),
        "request search": lambda report: _search(_lives()),
        "request series of digits": lambda report: _series("digits", data, _digits, report),
        "request series of Adult": lambda report: _series("Adult", data, _adult, report),
        "request replays": lambda report: _replays(federations, data, report),
        "request power": lambda report: _power_losses(_lives(), _folder(), report),
        "request weeks": lambda report: _weeks(data, report),
        "request predictions": lambda report: _predictions(_folder(), report),
        "request absence": lambda report: _absences(data, report),
    }


def _folder() -> Path:
    """The folder of what was measured with the present code."""
    code = Provenance.here(SECTIONS["request kills"].scope).code
    folder = ROOT / "build" / "requests" / code[:12]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _lives() -> RequestKills:
    return RequestKills(_folder() / "kills")


def _kills(kills: RequestKills, report: Report) -> Iterator[Row]:
    single, pairs = kills.single(), kills.pairs(PAIRS)
    lives = [*single[:LIVES], *pairs]
    for number, each in enumerate(kills.run(lives), len(kills.finished) + 1):
        report(f"requests: life {number} of {len(lives)}: {each.names}")
    failed = [each for each in kills.finished if each.failures]
    for name, names in kills.names.items():
        yield shown(f"requests: boundaries in a request's life, {name}", len(names), "")
    alone = sum(len(each.kills) == 1 for each in kills.finished)
    yield shown("requests: lives with one kill, each at another boundary", alone,
                f"of {len(single)} boundaries")  # fmt: skip
    two = len(kills.finished) - alone
    yield shown("requests: lives with a kill of two parties, at random boundaries", two, "")
    title = "requests: lives with a kill that lost the request, did it twice or ended differently"
    yield at_most(title, len(failed), 0, f"of {len(kills.finished)}; {len(single)} boundaries")


def _client_kills(
    section: str, mode: str, kind: type[ClientKills], report: Report
) -> Iterator[Row]:
    """Kills at the boundaries of the request of a client."""
    code = Provenance.here(SECTIONS[section].scope).code
    kills = kind(ROOT / "build" / "requests" / code[:12] / mode)
    single = kills.single()
    lives = single[:LIVES]
    for number, each in enumerate(kills.run(lives), len(kills.finished) + 1):
        report(f"{section}: life {number} of {len(lives)}: {each.names}")
    failed = [each for each in kills.finished if each.failures]
    title = f"{mode}: a client's request after the run, lives with one kill"
    yield shown(f"{title}, each at another boundary", len(kills.finished),
                f"of {len(single)} boundaries")  # fmt: skip
    yield at_most(f"{title}, that lost the request, did it twice or ended differently", len(failed),
                  0, f"of {len(kills.finished)}")  # fmt: skip


def _search(kills: RequestKills) -> Iterator[Row]:
    """What a search without the project's code finds before and after the life without a kill."""
    before = search_persons(kills.trained, kills.persons)
    after = search_persons(kills.quiet, kills.persons)
    found = len({line.rpartition(":")[0] for line in before})
    yield Row("requests: files with data of a person before its request, found by a plain search",
              found, "", "at least 3", found >= len(kills.names))  # fmt: skip
    yield at_most("requests: the same after its request", len(after), 0, "")


def _damage(kills: RequestKills, folder: Path, report: Report) -> Iterator[Row]:
    """Changes of the evidence of the request without a kill."""
    damage = RequestDamage(kills, next(reversed(kills.names)))
    parts = {
        "one bit of its receipt": damage.receipt,
        "one bit of the exported journal": damage.journal,
        "one byte of a record in the journal's file, in each header or at random": damage.file,
    }
    stored = folder / "damage.json"
    found = json.loads(stored.read_text()) if stored.exists() else {}
    for what, part in parts.items():
        if what not in found:
            report(f"requests: every change of {what}")
            found[what] = part()
            stored.write_text(json.dumps(found))
        tried, accepted = found[what]
        yield shown(f"requests: changes of {what}", tried, "")
        yield at_most(f"requests: changes of {what} that were accepted", accepted, 0, "")


def _power_losses(kills: RequestKills, folder: Path, report: Report) -> Iterator[Row]:
    losses = PowerLosses(kills, folder / "power")
    images = losses.spread()[:IMAGES]
    for number, each in enumerate(losses.run(images), len(losses.finished) + 1):
        report(f"requests: loss of power {number} of {len(images)}: {each.image}")
    found = Counter(each.result for each in losses.finished)
    title = "requests: loss of power"
    for name in kills.names:
        # The last boundary is the end of the life.
        yield shown(f"{title}, calls of fsync, {name}", len(losses.boundaries[name]) - 1, "")
    every = len(losses.spread())
    yield shown(f"{title}, images", len(losses.finished), f"of {every}: {len(LOSSES)} losses")
    different = len({each.digest for each in losses.finished})
    yield shown(f"{title}, images that differ", different, "")
    yield shown(f"{title}, images after which the request was carried out once, with the same "
                "final digests", found[RECOVERED], "")  # fmt: skip
    yield shown(f"{title}, images that a named error refused", found[NAMED], "")
    yield at_most(f"{title}, images with another end", found[WRONG], 0,
                  f"of {len(losses.finished)}; {every} images in all")  # fmt: skip
    with TemporaryDirectory() as name:
        asked = ask_with_losses(kills, Path(name))
    yield shown(f"{title} while a request is recorded, images", asked.images, "")
    yield at_most(f"{title} while a request is recorded, requests lost after their ID was printed",
                  len(asked.lost), 0, "")  # fmt: skip
    yield at_most(f"{title} while a request is recorded, journals that cannot be read",
                  len(asked.wrong), 0, "")  # fmt: skip


def _digits(folder: Path, data: Path, method: str, seed: int) -> RequestFederation:
    changes = (*COMMON, f"seed={seed}", f"unlearning.method='{method}'")
    return RequestFederation(folder, ROOT / "configs/vertical/digits.toml", changes)


def _adult(folder: Path, data: Path, method: str, seed: int) -> RequestFederation:
    changes = [*COMMON, f"seed={seed}", f"unlearning.method='{method}'", "psi.minimum=1000"]
    changes += [
        f"settings.{name}.data.sample={{fraction={SHARE}, seed=1}}"
        for name in ("bank", "employer", "registry")
    ]
    return RequestFederation(folder, ROOT / "configs/vertical/income.toml", changes, data)


def _series(name: str, data: Path, build: Builder, report: Report) -> Iterator[Row]:
    """The series of one data set with each method; the Retrain of a seed serves all methods."""
    folder = _folder()
    for method in METHODS:
        found, others = list[Series](), dict[str, int]()
        for seed in SEEDS:
            own = folder / f"{name} {method} {seed}"
            own.mkdir(exist_ok=True)
            if not (own / "series.json").exists():
                report(f"requests: {name}, {method}, seed {seed}")
                reference = folder / f"{name} {METHODS[0]} {seed}" / f"retrain {seed}.json"
                if reference.exists() and method != METHODS[0]:
                    (own / reference.name).write_text(reference.read_text())
                series = RequestSeries(build(own, data, method, seed), SIZES)
                content = asdict(series.run(seed, report)) | {"kept": series.sizes()}
                (own / "series.json").write_text(json.dumps(content))
            content = json.loads((own / "series.json").read_text())
            kept = content.pop("kept")
            found.append(Series(**content))
            others |= RequestSeries(build(own, data, method, seed), SIZES).other_steps(method)
        title = f"requests: {name}, {method}"
        yield from _rows(title, found, kept)
        yield at_most(f"{title}, training steps beside the method's, Retrains included",
                      sum(others.values()), 0, ", ".join(others))  # fmt: skip


def _weeks(data: Path, report: Report) -> Iterator[Row]:
    """Ten weeks on each data set and seed, with the agreement's own method."""
    for name, (config, share) in {"digits": ("digits", 1.0), "Adult": ("income", SHARE)}.items():
        lives = []
        for seed in SEEDS:
            own = _folder() / f"weeks of {name} {seed}"
            own.mkdir(exist_ok=True)
            if not (own / "life.json").exists():
                report(f"weeks: {name}, seed {seed}")
                build = partial(_growing, own, data, config, seed)
                life = Weeks(build, round(FIRST * share, 6), seed).live(WEEKS, report)
                (own / "life.json").write_text(json.dumps(asdict(life)))
            lives.append(Life(**json.loads((own / "life.json").read_text())))
        yield from _rows_of_weeks(f"{WEEKS} weeks of {name}, {len(lives)} seeds", lives)


def _absences(data: Path, report: Report) -> Iterator[Row]:
    """A request of a twentieth of the training rows while a passive party is absent."""
    for name, (build, away) in {
        "digits": (_digits, "right"),
        "Adult": (_adult, "registry"),
    }.items():
        found = []
        for seed in SEEDS:
            own = _folder() / f"absence of {name} {seed}"
            own.mkdir(exist_ok=True)
            if not (own / "absence.json").exists():
                report(f"absence: {name}, seed {seed}")
                shutil.rmtree(own)
                own.mkdir()
                federation = build(own, data, METHODS[-1], seed).changed(
                    'requests.absent="fallback"'
                )
                content = asdict(live_through_absence(federation, away, ABSENT_SHARE))
                (own / "absence.json").write_text(json.dumps(content))
            found.append(Absence(**json.loads((own / "absence.json").read_text())))
        yield from _rows_of_absences(f"{name}: request while a passive party is absent", found)


def _rows_of_absences(title: str, found: list[Absence]) -> Iterator[Row]:
    gaps = [100 * (each.during - each.after) for each in found]
    yield Row(f"{title}: test accuracy before its return minus that after it",
              f"{mean(gaps):+.2f}; {min(gaps):+.2f} to {max(gaps):+.2f}",
              f"points, {len(found)} seeds", f"at most {POINT:g} below",
              mean(gaps) >= -POINT)  # fmt: skip
    leaks = [each.leak_during - each.leak_after for each in found]
    half = _half_interval(leaks)
    yield Row(f"{title}: AUC of the attack on its rows before its return minus that after it",
              f"{mean(leaks):+.3f} ± {half:.3f} (95 %); {min(leaks):+.3f} to {max(leaks):+.3f}",
              f"AUC, {len(found)} seeds", f"the interval of the mean within {LEAK:g}",
              abs(mean(leaks)) + half <= LEAK)  # fmt: skip
    yield shown(f"{title}: time until predictions without its rows",
                round(mean(each.seconds for each in found), 1), "s")  # fmt: skip
    yield at_most(
        f"{title}: predictions about its rows", sum(each.answered for each in found), 0, ""
    )
    equal = sum(each.equal for each in found)
    yield Row(f"{title}: the same model after its return as with all parties", equal,
              f"of {len(found)}", f"{len(found)}", equal == len(found))  # fmt: skip


def _half_interval(values: list[float]) -> float:
    """Half of the 95 % interval of the mean (Student's t); infinite for one value."""
    if len(values) < 2:
        return inf
    return float(student.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))


def _growing(folder: Path, data: Path, config: str, seed: int, share: float) -> RequestFederation:
    """The federation whose parties hold the fraction ``share`` of their rows, all the same."""
    path = ROOT / f"configs/vertical/{config}.toml"
    names = tomllib.loads(path.read_text())["parties"]
    samples = [f"settings.{each}.data.sample={{fraction={share}, seed=1}}" for each in names]
    changes = (*COMMON, f"seed={seed}", "psi.minimum=500", *samples)
    return RequestFederation(folder, path, changes, data)


def _rows_of_weeks(title: str, lives: list[Life]) -> Iterator[Row]:
    gaps = [100 * (each.accuracy - each.retrain) for each in lives]
    yield Row(f"{title}: test accuracy minus that of a training from the beginning",
              f"{mean(gaps):+.2f}; {min(gaps):+.2f} to {max(gaps):+.2f}", "points",
              f"at most {POINT:g} below", mean(gaps) >= -POINT)  # fmt: skip
    asked, gone = sum(each.requests for each in lives), sum(each.forgotten for each in lives)
    certified = sum(each.certified for each in lives)
    yield Row(f"{title}: requests with a receipt that verifies", certified, f"of {asked}",
              f"{asked}", certified == asked)  # fmt: skip
    yield at_most(f"{title}: forgotten rows that came back", sum(each.returned for each in lives),
                  0, f"of {gone}")  # fmt: skip
    yield at_most(f"{title}: places where a search finds forgotten rows",
                  sum(len(each.found) for each in lives), 0, "")  # fmt: skip


def _replays(federations: Mapping[str, Builder], data: Path, report: Report) -> Iterator[Row]:
    """Replays of the requests of the first seed, by the default method."""
    equal, folder = list[bool](), _folder()
    for name, build in federations.items():
        method = METHODS[-1]
        own = folder / f"{name} {method} {SEEDS[0]}"
        stored = own / "replays.json"
        if not stored.exists():
            own.mkdir(exist_ok=True)
            series = RequestSeries(build(own, data, method, SEEDS[0]), SIZES)
            stored.write_text(json.dumps(series.replays(SEEDS[0], report)))
        equal += json.loads(stored.read_text())
    title = "requests: replays of a request that made the same model at every party"
    yield Row(title, sum(equal), f"of {len(equal)}", f"{len(equal)}", all(equal))


def _rows(title: str, found: list[Series], kept: dict[str, tuple[int, int]]) -> Iterator[Row]:
    """The figures of all seeds of one method."""
    differences = [each.difference for each in found]
    average = mean(differences)
    yield Row(
        f"{title}, mean test accuracy after ten requests against one Retrain without all rows",
        round(average, 2), f"points, mean of {len(found)} seeds", f"within {POINT:g}",
        abs(average) <= POINT, (round(min(differences), 2), round(max(differences), 2)),
    )  # fmt: skip
    yield shown(f"{title}, mean test accuracy of the Retrain", mean(e.retrain for e in found), "")
    done = sum(state == "certified" for each in found for state in each.states)
    total = sum(len(each.states) for each in found)
    yield Row(f"{title}, certified requests", done, f"of {total}", f"{total}", done == total)
    seconds = [each for one in found for each in one.seconds]
    yield shown(f"{title}, mean time of a request with the start of all processes",
                round(mean(seconds), 1), "s")  # fmt: skip
    for party, (stored, model) in kept.items():
        yield shown(f"{title}, size of what {party} keeps over its part of the model",
                    round(stored / model, 2), "times")  # fmt: skip
    whole = sum(stored for stored, _ in kept.values()) / sum(model for _, model in kept.values())
    yield at_most(f"{title}, size of what all parties keep over the model",
                  round(whole, 2), KEPT, "times")  # fmt: skip


def _predictions(folder: Path, report: Report) -> Iterator[Row]:
    """Predictions while requests run, with the digits federation of the first seed."""
    own = folder / f"digits {METHODS[0]} 0"
    stored = own / "predictions.json"
    if not stored.exists():
        own.mkdir(exist_ok=True)
        federation = _digits(own, own, METHODS[0], 0)
        plan = TrialPlan(seconds=SECONDS, rate=RATE, requests=3, restarts=2)
        trained = RequestSeries(federation, SIZES).trained
        counts, seconds = run_trial(federation, trained, plan, report)
        stored.write_text(json.dumps({"counts": counts, "seconds": seconds}))
    content = json.loads(stored.read_text())
    counts = content["counts"]
    title = f"requests: {RATE:g} predictions a second for {content['seconds']:.0f} s"
    frozen = counts.pop("wrong: predicted a frozen row", 0)
    wrong = sum(count for kind, count in counts.items() if kind.startswith("wrong"))
    failed = sum(count for kind, count in counts.items() if kind.startswith("failed"))
    for kind in ("right", "withheld", "unavailable"):
        yield shown(f"{title}, {kind}", counts.get(kind, 0), "")
    yield at_most(f"{title}, wrong answers", wrong, 0, "")
    yield at_most(f"{title}, answers about frozen rows", frozen, 0, "")
    yield at_most(f"{title}, failures that are no 503 with the party's name", failed, 0, "")
