"""A list of small experiments, and results with given figures, for the benchmark tests."""

from pathlib import Path

from parties.experiments.bench.results import Results, TableRow

TINY = """
federation = "tiny"

[labels]
classes = ["setosa", "versicolor", "virginica"]

[parties.hub]
role = "active"

[parties.left]
role = "passive"
width = 4
bottom = { kind = "mlp", hidden = [] }

[psi]
minimum = 50

[training]
batch = 16
epochs = 1

[unlearning]
compare = ["fine-tune", "relabel"]
retrains = 2
fine_tune = { epochs = 1 }
relabel = { epochs = 1 }
fedora = { iterations = 2, start = "original", anneal = false }

[evaluation]
permutations = 19
completeness = false

[[unlearn]]
name = "some"
classes = ["setosa"]
fraction = 0.5

[settings.hub.data]
kind = "sklearn"
name = "iris"
features = false
label = true

[settings.left.data]
kind = "sklearn"
name = "iris"
"""
LIST = """
[variants.good]

[variants.bad]
any = ["training.batch=5000"]        # more than there are rows

[[experiment]]
name = "works"
config = "tiny.toml"
tables = ["IV"]
seeds = 2
variants = ["good"]

[[experiment]]
name = "fails"
config = "tiny.toml"
tables = ["V"]
seeds = 1
variants = ["bad"]
"""


def write_list(folder: Path) -> Path:
    """Write the list and its config to ``folder`` and return the path of the list."""
    (folder / "tiny.toml").write_text(TINY)
    path = folder / "list.toml"
    path.write_text(LIST)
    return path


def results_of(figures: dict[tuple[str, TableRow], dict[str, list[float]]]) -> Results:
    """Return results with these figures; the index in a list is the seed."""
    results = Results()
    for (experiment, row), measures in figures.items():
        seeds = results.found.setdefault((experiment, row.variant, row.method), {})
        for measure, values in measures.items():
            for seed, value in enumerate(values):
                seeds.setdefault(seed, {})[measure] = value
    return results
