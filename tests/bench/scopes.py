"""The code that each section of the records depends on, and the file of its rows.

A section is what one measurement writes: a section of ``make bench``, ``make house``, a benchmark
of ``vfl bench``, or the run behind the picture of the demo. A change of code in its scope makes the
rows of the section stale.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from parties.experiments.provenance import HORIZONTAL, LANGUAGE, SCOPES, VERTICAL

BENCH, FEDORA = "docs/bench.json", "docs/fedora.json"
FEDERATED, LLM = "docs/horizontal.json", "docs/llm.json"
PEOPLE = "docs/people.json"

CHANNEL = ("protocol/",)
ALIGNMENT = ("psi/", *CHANNEL, "parties/vertical/alignment/")
SPLIT_MODEL = (
    *CHANNEL, "models/bottoms.py", "models/initialisation.py", "models/tops.py",
    "parties/common/shared_randomness.py", "parties/vertical/engine/",
)  # fmt: skip
CRASHES = ("parties/session/", "parties/requests/", "parties/common/signals.py")
CLIENTS = (
    *CHANNEL, "models/arithmetic.py", "models/server_optimisers.py",
    "parties/horizontal/engine/", "parties/horizontal/local/",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Section:
    """The record of a section, and the folders and files that its figures depend on.

    The record is the file with its rows, or with its own commit, machine and digest.
    """

    path: str
    scope: tuple[str, ...]


REQUEST_PARTS = (
    "request kills", "request changes", "request search", "request series of digits",
    "request series of Adult", "request replays", "request power", "request predictions",
    "request weeks", "request absence",
)  # fmt: skip
REQUESTS = Section(
    "docs/requests.json",
    (*VERTICAL, *CRASHES, "unlearning/receipts/", "parties/vertical/service/",
     "parties/vertical/kept_model.py", "parties/vertical/purge.py",
     "parties/vertical/passive.py", "parties/vertical/resume.py", "parties/web/",
     "configs/requests.py", "configs/vertical/digits.toml", "configs/vertical/income.toml"),
)  # fmt: skip


def _vertical(config: str, *others: str) -> tuple[str, ...]:
    return (*VERTICAL, f"configs/vertical/{config}.toml", *others)


SECTIONS: Mapping[str, Section] = {
    "equality": Section(
        BENCH, (*SPLIT_MODEL, "unlearning/objectives.py", "unlearning/primal_dual.py",
                "parties/vertical/methods/fedora.py",
                "parties/vertical/methods/fedora_settings.py"),
    ),
    "intersection": Section(BENCH, ALIGNMENT),
    "new rows": Section(BENCH, ALIGNMENT),
    "transport": Section(BENCH, CHANNEL),
    "scale": Section(BENCH, ALIGNMENT),
    "peers": Section(
        BENCH, (*ALIGNMENT, "parties/data/sources/collect.py",
                "parties/data/sources/csv_source.py"),
    ),
    "hardened": Section(BENCH, (*ALIGNMENT, "parties/common/workers.py")),
    "commands": Section(
        BENCH, (*_vertical("digits"), *ALIGNMENT, "parties/cli/", "parties/session/"),
    ),
    "bad input": Section(
        BENCH, (*CHANNEL, "configs/", "parties/cli/", "parties/data/", "parties/session/"),
    ),
    "wrong orders": Section(
        BENCH, (*CHANNEL, "parties/session/", "parties/horizontal/client.py",
                "parties/vertical/engine/", "parties/vertical/passive.py"),
    ),
    "trajectory": Section(BENCH, SPLIT_MODEL),
    "steps": Section(BENCH, (*SPLIT_MODEL, "configs/vertical/income.toml")),
    "growth": Section(BENCH, (*SPLIT_MODEL, "parties/data/")),
    "resume": Section(BENCH, (*_vertical("digits"), *CRASHES, "parties/vertical/resume.py")),
    "accuracy": Section(
        BENCH, (*SPLIT_MODEL, "parties/data/preprocess.py", "configs/vertical/income.toml"),
    ),
    "digits": Section(BENCH, _vertical("digits")),
    "adult": Section(BENCH, _vertical("income")),
    "certified": Section(
        FEDORA, (*SPLIT_MODEL, "unlearning/newton.py", "unlearning/certificate.py",
                 "parties/vertical/methods/newton_cg.py", "configs/vertical/income-certified.toml"),
    ),
    "shards": Section(
        FEDORA, (*SPLIT_MODEL, "unlearning/sharding.py", "parties/vertical/methods/sharded.py",
                 "configs/vertical/digits-shards.toml"),
    ),
    "fashion": Section(BENCH, _vertical("fashion")),
    "cost": Section(FEDORA, (*_vertical("fashion"), *CHANNEL)),
    "aggregating": Section(FEDERATED, CLIENTS),
    "simulated": Section(FEDERATED, (*CLIENTS, "parties/horizontal/simulation/")),
    "clients a round": Section(PEOPLE, (*CLIENTS, "parties/horizontal/simulation/")),
    "client request kills": Section(
        "docs/requests.json",
        (*CLIENTS, *CRASHES, "unlearning/receipts/", "parties/horizontal/service/",
         "parties/horizontal/admission.py", "parties/horizontal/client.py",
         "parties/horizontal/client_store.py", "parties/horizontal/service/kept_model.py",
         "parties/horizontal/requests.py", "parties/horizontal/methods/fine_tune.py"),
    ),
    "text request kills": Section(
        "docs/requests.json",
        (*CLIENTS, *CRASHES, "unlearning/receipts/", "parties/horizontal/service/",
         "parties/horizontal/admission.py", "parties/horizontal/client.py",
         "parties/horizontal/client_store.py", "parties/horizontal/requests.py",
         "parties/language/", "unlearning/llm/"),
    ),
    "client kills": Section(FEDERATED, (*CLIENTS, *CRASHES, "parties/horizontal/admission.py")),
    "method kills": Section(
        BENCH, (*CRASHES, *VERTICAL, *HORIZONTAL, "parties/language/methods/",
                "parties/horizontal/client_store.py", "parties/vertical/resume.py"),
    ),
    **dict.fromkeys(REQUEST_PARTS, REQUESTS),
    "local start": Section(
        BENCH,
        (*SPLIT_MODEL, "models/codes.py", "configs/local_start.py",
         "parties/vertical/methods/local_start.py", "parties/vertical/methods/epochs.py",
         "configs/vertical/income.toml", "configs/vertical/fashion.toml"),
    ),
    "going on": Section(
        "docs/requests.json",
        (*SPLIT_MODEL, "models/codes.py", "configs/local_start.py",
         "parties/vertical/kept_model.py", "parties/vertical/methods/local_start.py",
         "parties/vertical/methods/train_model.py", "configs/vertical/digits.toml",
         "configs/vertical/income.toml", "configs/vertical/credit.toml"),
    ),
    "label correction": Section(
        "docs/requests.json",
        (*VERTICAL, "configs/vertical/digits.toml", "configs/vertical/fashion.toml"),
    ),
    "bank and call centre": Section(
        PEOPLE, (*VERTICAL, *ALIGNMENT, "parties/cli/setup/", "parties/data/"),
    ),
    "default AUC": Section(PEOPLE, (*VERTICAL, "parties/cli/setup/", "parties/data/")),
    "estimator": Section(BENCH, ("unlearning/audit/bias_curve.py", "unlearning/audit/lira.py")),
    "language models": Section(LLM, (*LANGUAGE, "configs/llm/tofu.toml")),
    "house": Section(
        "docs/house.json", ("configs/", "models/", "parties/", "protocol/", "psi/", "unlearning/"),
    ),
    "demo": Section(
        "docs/demo.json", (*_vertical("digits"), *ALIGNMENT, "parties/cli/commands/demo.py"),
    ),
    "fedora tables": Section("docs/fedora/tables.json", SCOPES["fedora tables"]),
    "forgetting": Section(FEDORA, SCOPES["forgetting"]),
    "exact-methods": Section(FEDORA, SCOPES["exact-methods"]),
    "horizontal tables": Section("docs/horizontal/tables.json", SCOPES["horizontal tables"]),
    "llm tables": Section("docs/llm/tables.json", SCOPES["llm tables"]),
}  # fmt: skip
