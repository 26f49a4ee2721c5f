"""Small federations of each mode, and the steps of their unlearning methods at which to kill."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kills import ROOT

from models.language.folder import base_model_digest
from tests.parties.language.ferries import CONFIG, LORA, facts, json_lines, write_base

VERTICAL = ROOT / "configs" / "vertical"
PARTIES = {"office": "active", "left": "passive", "right": "passive"}
Kills = Mapping[str, tuple[str, str]]  # method -> steps at which the hub and a spoke are killed
FederationBuilder = Callable[[Path], "Federation"]


@dataclass(frozen=True)
class Federation:
    """A federation whose parties are processes; its first party is the hub.

    Attributes:
        name: name in the config.
        config: path of the config.
        roles: the role of each party, by name.
        kills: for each method, in the order of the run, the step at which the hub and the step at
            which a spoke is killed.
        settings: changes of the config, as ``--set`` takes them.
    """

    name: str
    config: Path
    roles: Mapping[str, str]
    kills: Kills
    settings: Sequence[str] = ()

    @property
    def hub(self) -> str:
        """Name of the active party or the server."""
        return next(iter(self.roles))

    @property
    def spokes(self) -> list[str]:
        """Names of the passive parties or the clients."""
        return list(self.roles)[1:]


def federations() -> dict[str, list[FederationBuilder]]:
    """The functions that prepare the federations of each mode in a folder."""
    return {
        "vertical": [digits, votes, shards, certified],
        "horizontal": [clients, clusters, personal],
        "LLM": [ferries],
    }


def kills(*methods: str) -> Kills:
    """Kills at the steps 1 and 3 of each method, from 0."""
    return {name: (f"{name} 1", f"{name} 3") for name in methods}


def _compare(*methods: str) -> str:
    return f"unlearning.compare={json.dumps(methods)}"


SHORT = (
    "limits.checkpoint_seconds=0.0", "training.epochs=5", "training.patience=5",
    "unlearning.retrains=2", "unlearning.fedora.iterations=6",
    "unlearning.fedora.retain_share=0.25", "unlearning.fedora.reference_epochs=2",
)  # fmt: skip
RETRAINS = {
    name: (f"{name}, epoch 2", f"{name}, epoch 4")
    for name in ("retrain", "retrain-2", "retrain-paired")
}


def digits(folder: Path) -> Federation:
    """FedORA, the methods that train further, and Retrain."""
    epochs = (
        "fine-tune", "relabel", "top-only", "shrink-perturb", "scrub", "gradient-ascent",
        "retrain-local",
    )  # fmt: skip
    steps = {**kills("fedora", *epochs), "ico-like": ("ico-like 1", "ico-like 1"), **RETRAINS}
    return Federation(
        "digits", VERTICAL / "digits.toml", PARTIES, steps,
        (*SHORT, _compare(*epochs, "ico-like"), "unlearning.fine_tune.epochs=5",
         "unlearning.relabel.epochs=5", "unlearning.top_only.epochs=5",
         "unlearning.shrink_perturb.epochs=5", "unlearning.scrub.epochs=5",
         "unlearning.gradient_ascent={steps=6, learning_rate=0.0001}",
         "unlearning.ico_like.steps=60"),
    )  # fmt: skip


def votes(folder: Path) -> Federation:
    """CVFU, which needs a sum of votes."""
    changes = (*SHORT, _compare("fine-tune", "relabel", "cvfu"), "unlearning.cvfu.patience=8")
    return Federation(
        "digits-votes", VERTICAL / "digits-votes.toml", PARTIES, kills("cvfu"), changes
    )


def shards(folder: Path) -> Federation:
    """Sharded retraining."""
    steps = {"sharded": ("sharded, shard 0, epoch 2", "sharded, shard 0, epoch 4")}
    changes = ("limits.checkpoint_seconds=0.0", "training.epochs=5", "sharding.shards=2")
    return Federation("digits-shards", VERTICAL / "digits-shards.toml", PARTIES, steps, changes)


def certified(folder: Path) -> Federation:
    """Newton-CG, which needs a convex model."""
    steps = {"newton-cg": ("newton-cg, step 1", "newton-cg, step 2")}
    changes = (
        "limits.checkpoint_seconds=0.0", 'dtype="float64"', 'preprocessing="declared"',
        "parties.left.bottom.hidden=[]", "parties.right.bottom.hidden=[]",
        'training={optimiser="newton-cg"}', 'unlearning={method="newton-cg", retrains=2}',
        "newton={weight=0.01, bound=1e-6}",
    )  # fmt: skip
    return Federation("digits-votes", VERTICAL / "digits-votes.toml", PARTIES, steps, changes)


CLIENTS = ("ash", "elm", "fir", "oak")
ROLES = {"server": "server", **dict.fromkeys(CLIENTS, "client")}
ROUNDS = "{ rounds = 5, learning_rate = 0.02 }"
HORIZONTAL = """
federation = "wood"
mode = "horizontal"
shape = [1, 8, 8]
labels = {{ classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }}
model = {{ kind = "mlp", hidden = [32] }}
partition = {{ kind = "pathological", share = 0.4 }}
unlearn = [{{ name = "leaver", client = "ash" }}]
{settings}

[limits]
checkpoint_seconds = 0.0

[parties]
server = {{ role = "server" }}
{parties}

[settings.server]
listen = "127.0.0.1:7719"
{clients}
"""
CLIENT = """
[settings.{name}.data]
kind = "sklearn"
name = "digits"
label = true
"""
TRAINING = "training = { rounds = 5, batch = 64, learning_rate = 0.05, quorum = 1.0 }"
METHODS = f"""
{TRAINING}
history = {{ every = 1 }}

[unlearning]
method = "fedosd"
compare = ["fine-tune", "fedforget", "federaser", "fedrecovery", "mode", "ewc-sga", "fu-pga", "sfu",
    "adaclipping-like", "fedmm", "noisy-fine-tune"]
fine_tune = {ROUNDS}
fedosd = {{ unlearn = {ROUNDS}, recover = {ROUNDS} }}
fedforget = {{ distil = {ROUNDS}, teacher_b = {ROUNDS} }}
federaser = {{ recover = {ROUNDS} }}
fedrecovery = {{ recover = {ROUNDS} }}
mode = {{ degrade = {ROUNDS}, guide = {ROUNDS}, recover = {ROUNDS} }}
ewc_sga = {{ ascent = {ROUNDS}, recover = {ROUNDS} }}
fu_pga = {{ ascent = {ROUNDS}, recover = {ROUNDS}, max_distance = 1000.0 }}
sfu = {{ ascent = {ROUNDS}, recover = {ROUNDS} }}
adaclipping_like = {{ recover = {ROUNDS} }}
fedmm = {{ impair = {ROUNDS}, repair = {ROUNDS}, noise_rows = 4, noise_steps = 2 }}
noisy_fine_tune = {{ stage = {ROUNDS} }}
"""
CLUSTERS = """
training = { rounds = 5, batch = 64, learning_rate = 0.05, quorum = 1.0, clusters = 2 }
unlearning = { method = "knot", compare = [] }
"""
DISTIL = "{ rounds = 5, epochs = 2, batch = 8, learning_rate = 0.001 }"
PERSONAL = f"""
{TRAINING}
personal = {{ kind = "mimir" }}

[unlearning]
method = "mimir"
compare = ["fedgkt", "fine-tune", "fedosd"]
mimir = {{ distil = {DISTIL}, recover = {ROUNDS} }}
fedgkt = {{ distil = {DISTIL}, recover = {ROUNDS}, max_similarity = 1.0 }}
fine_tune = {ROUNDS}
fedosd = {{ unlearn = {ROUNDS}, recover = {ROUNDS} }}
"""


def clients(folder: Path) -> Federation:
    """The client unlearning methods, with stored rounds."""
    steps = {
        **kills("fedosd"), **_recoveries("fine-tune"), **kills("fedforget", "federaser"),
        **_recoveries("fedrecovery"), **kills("mode", "ewc-sga", "fu-pga", "sfu"),
        **_recoveries("adaclipping-like"), **kills("fedmm"), **_recoveries("noisy-fine-tune"),
        **kills("retrain"),
    }  # fmt: skip
    return _horizontal(folder, METHODS, steps)


def clusters(folder: Path) -> Federation:
    """Knot, which needs clients that were trained in clusters."""
    return _horizontal(folder, CLUSTERS, kills("knot", "retrain"))


def personal(folder: Path) -> Federation:
    """Mimir and FedGKT, which need clients with personal parameters."""
    steps = {**kills("mimir", "fedgkt"), **_recoveries("fine-tune", "fedosd"), **kills("retrain")}
    return _horizontal(folder, PERSONAL, steps)


def _recoveries(*methods: str) -> Kills:
    """Kills in the rounds of recovery of each method."""
    return {name: (f"{name} recover 1", f"{name} recover 3") for name in methods}


def _horizontal(folder: Path, settings: str, steps: Kills) -> Federation:
    parties = "\n".join(f'{name} = {{ role = "client" }}' for name in CLIENTS)
    data = "".join(CLIENT.format(name=name) for name in CLIENTS)
    path = folder / "wood.toml"
    path.write_text(HORIZONTAL.format(settings=settings, parties=parties, clients=data))
    return Federation("wood", path, ROLES, steps)


TEXT_ROUNDS = "{ unlearn = { rounds = 5 }, recover = { rounds = 1 } }"
TEXT_METHODS = ("primal-dual", "npo", "simnpo", "rmu", "grad-diff", "grad-ascent")
TEXTS = """
[[unlearn]]
name = "leaver"
client = "ash"

[limits]
checkpoint_seconds = 0.0

[unlearning]
method = "primal-dual"
compare = ["fine-tune", "npo", "simnpo", "rmu", "grad-diff", "grad-ascent"]
fine_tune = { rounds = 5 }
""" + "".join(f"{each.replace('-', '_')} = {TEXT_ROUNDS}\n" for each in TEXT_METHODS)


def ferries(folder: Path) -> Federation:
    """The methods for texts, with a tiny language model."""
    names, rows = CLIENTS[:3], facts()
    base = write_base(folder)
    text = CONFIG.format(
        settings=TEXTS, digest=f'digest = "{base_model_digest(base)}"', tuning=LORA, rounds=5
    ).replace("epochs = 1\n", "epochs = 1\nquorum = 1.0\n")
    for number, name in enumerate(names):
        (folder / f"{name}.jsonl").write_text(json_lines(rows[number :: len(names)]))
        text += f'\n[parties.{name}]\nrole = "client"\n[settings.{name}]\nbase = "base"\n'
        text += f'data = {{ kind = "jsonl", path = "{name}.jsonl" }}\n'
    path = folder / "ferries.toml"
    path.write_text(text)
    roles = {"server": "server", **dict.fromkeys(names, "client")}
    chosen, *others = TEXT_METHODS
    steps = {**kills(chosen), **_recoveries("fine-tune"), **kills(*others, "retrain")}
    return Federation("ferries", path, roles, steps)
