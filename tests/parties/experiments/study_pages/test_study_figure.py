"""The figure of the forgetting study draws every recorded method, each in its kind."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from parties.experiments.population.audit import U_LIRA
from parties.experiments.population.recorded import RecordedStudy
from parties.experiments.population.summary import NULL
from parties.experiments.study_pages.figure import (
    EXACT,
    HIDDEN,
    LABELS,
    OTHER,
    PRIMAL,
    STYLES,
    TRAINED,
    StudyPoint,
    draw_study,
    study_points,
)

ROOT = Path(__file__).parents[4]
RECORDED = RecordedStudy.read(ROOT / "docs" / "forgetting.json").populations
KINDS = {
    "Retrain": EXACT, "trained model": TRAINED, "short Retrain": EXACT, "local Retrain": EXACT,
    "fine-tune": OTHER, "early checkpoint, fine-tuned": OTHER, "SCRUB": OTHER,
    "FedORA, paper's form": PRIMAL, "FedORA, dual off": PRIMAL,
}  # fmt: skip


def drawn(points: list[StudyPoint], path: Path) -> list[Axes]:
    """The panels of the figure of these points."""
    figures: list[Figure] = []
    save = Figure.savefig

    def kept(figure: Figure, *arguments: object, **settings: object) -> None:
        figures.append(figure)
        save(figure, *arguments, **settings)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", kept)
        draw_study(points, path)
    return figures[0].axes


@pytest.fixture(scope="module")
def panels(tmp_path_factory: pytest.TempPathFactory) -> list[Axes]:
    """The panels of the shipped figure."""
    return drawn(study_points(RECORDED.values()), tmp_path_factory.mktemp("figure") / "study.png")


def test_points_are_all_methods_of_all_populations_but_hidden_variants() -> None:
    points = study_points(RECORDED.values())
    assert [(each.population, each.name) for each in points] == [
        (name, LABELS.get(own.name, own.name))
        for name, place in RECORDED.items()
        for own in place.methods
        if own.name not in HIDDEN
    ]
    assert {own.name for own in RECORDED["digits"].methods} >= HIDDEN
    for each in points:
        name = {label: key for key, label in LABELS.items()}.get(each.name, each.name)
        own = RECORDED[each.population].method(name)
        assert (each.rows, each.leak) == pytest.approx((own.rows, own.auc[U_LIRA].value), abs=1e-4)


def test_exact_methods_fedora_and_other_methods_are_distinguished() -> None:
    kinds = {each.name: each.kind for each in study_points([RECORDED["digits"]])}
    assert {name: kinds[name] for name in KINDS} == KINDS
    assert len({marker for _, marker, _, _ in STYLES.values()}) == len(STYLES)
    assert len({colour for _, _, colour, _ in STYLES.values()}) == len(STYLES)


def test_every_point_is_drawn_with_its_name(panels: list[Axes]) -> None:
    points = study_points(RECORDED.values())
    assert [panel.get_title() for panel in panels] == list(RECORDED)
    for panel in panels:
        own = [each for each in points if each.population == panel.get_title()]
        texts = [each.get_text() for each in panel.texts if isinstance(each, Annotation)]
        assert sorted(texts) == sorted(each.name for each in own)
        at = {float(line.get_ydata()[0]) for line in panel.lines if len(line.get_ydata()) == 1}
        assert at == {each.leak for each in own}
        levels = {line.get_ydata()[0] for line in panel.lines if list(line.get_xdata()) == [0, 1]}
        assert levels == {0.5, *(each.leak for each in own if each.kind == TRAINED)}


def test_labels_of_the_shipped_figure_do_not_overlap(panels: list[Axes]) -> None:
    for panel in panels:
        boxes = [Text.get_window_extent(each) for each in panel.texts]  # without their lines
        for box, other in combinations(boxes, 2):
            assert not box.overlaps(other)


def test_model_without_exchanged_rows_stands_left_of_all_others(tmp_path: Path) -> None:
    place = RECORDED["digits"]
    rows = [replace(place.method(NULL), rows=0.25), place.method("original")]
    (panel,) = drawn(study_points([replace(place, methods=rows)]), tmp_path / "study.png")
    at = [float(line.get_xdata()[0]) for line in panel.lines if len(line.get_xdata()) == 1]
    assert sorted(at) == pytest.approx([0.25 / 3, 0.25])
    assert panel.get_xticklabels()[0].get_text() == "0"
