"""Settings of unlearning: refusals, and values that TOML cannot write."""

from pathlib import Path

import pytest
from test_schema import GOOD, read, refusal

SUM = GOOD.replace("width = 4", "width = 2") + '\n[top]\nkind = "sum"\n'
MORE = SUM.replace("[training]", '[parties.mill]\nrole = "passive"\nwidth = 2\n\n[training]')


def compared(*names: str) -> str:
    return f"unlearning.compare={list(names)!r}".replace("'", '"')


def test_comparison_must_contain_the_trivial_baselines(tmp_path: Path) -> None:
    assert "unlearning.compare must contain relabel" in refusal(
        tmp_path, GOOD, compared("fine-tune")
    )
    read(tmp_path, GOOD, compared("fine-tune"), "unlearning.method=relabel")


def test_a_baseline_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    twice = compared("fine-tune", "relabel", "relabel")
    assert "names a method twice" in refusal(tmp_path, GOOD, twice)


def test_an_unknown_method_is_refused(tmp_path: Path) -> None:
    assert "unlearning.method" in refusal(tmp_path, GOOD, "unlearning.method=fedorra")


def test_cvfu_without_a_sum_of_votes_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, GOOD, "unlearning.method=cvfu")
    assert "set top.kind = 'sum'" in error
    assert "set top.kind" in refusal(tmp_path, GOOD, compared("fine-tune", "relabel", "cvfu"))


def test_cvfu_with_a_sum_of_votes_is_accepted(tmp_path: Path) -> None:
    plan = read(tmp_path, SUM, compared("fine-tune", "relabel", "cvfu")).agreement.unlearning
    assert plan.compare[-1] == "cvfu"


@pytest.mark.parametrize("who", ['["bank"]', '["nobody"]', '["shop", "mill"]'])
def test_offline_parties_must_be_passive_and_not_all(tmp_path: Path, who: str) -> None:
    error = refusal(tmp_path, MORE, "unlearning.method=cvfu", f"unlearning.cvfu.offline={who}")
    assert "must name passive parties, but not all of them" in error
    read(tmp_path, MORE, "unlearning.method=cvfu", 'unlearning.cvfu.offline=["shop"]')


def test_adaptive_steps_can_be_switched_off(tmp_path: Path) -> None:
    text = GOOD + "\n[unlearning.fedora]\nadaptive = false\n"
    assert read(tmp_path, text).agreement.unlearning.fedora.adaptive is None
    changed = read(tmp_path, GOOD, "unlearning.fedora.adaptive=false").agreement
    assert changed.unlearning.fedora.adaptive is None
    assert "unlearning.fedora.adaptive" in refusal(
        tmp_path, GOOD, "unlearning.fedora.adaptive=true"
    )


@pytest.mark.parametrize("change", ["score=false", "extrapolate=true"])
def test_ablation_of_the_literal_dual_is_refused(tmp_path: Path, change: str) -> None:
    error = refusal(tmp_path, GOOD, "unlearning.fedora.dual=literal", f"unlearning.fedora.{change}")
    assert "or dual = 'scalar'" in error


def test_default_steps_follow_the_learning_rate_of_training(tmp_path: Path) -> None:
    changes = ("unlearning.fedora.primal_step=0.5", "unlearning.fedora.primal=plain")
    own, plain = (read(tmp_path, GOOD, change).agreement.unlearning.fedora for change in changes)
    follow = read(tmp_path, GOOD).agreement.unlearning.fedora
    assert follow.first_step(0.0003) == pytest.approx(0.0012)
    assert follow.first_step(0.003) == 0.004
    present = read(tmp_path, GOOD, "unlearning.fedora.policy=present").agreement.unlearning.fedora
    assert present.first_step(0.003) == 0.006
    assert own.first_step(0.003) == 0.5
    assert plain.first_step(0.003) == 0.1


def test_fedora_has_another_policy_where_no_bottom_may_be_fitted(tmp_path: Path) -> None:
    found = [read(tmp_path, text).agreement.unlearning.fedora for text in (GOOD, SUM)]
    assert [each.policy for each in found] == ["counterfactual", "present"]
    assert [each.start for each in found] == ["original", "rewind"]
    asked = "unlearning.fedora.policy=counterfactual"
    assert "unlearning.fedora.policy = 'present'" in refusal(tmp_path, SUM, asked)


ALONE = ("unlearning.retrains=0", "unlearning.compare=[]")


@pytest.mark.parametrize(
    ("changes", "method"),
    [
        ((), "fedora"),
        (("training.start='local'",), "retrain-local"),
        (("training.start='local'", "unlearning.method='fedora'"), "fedora"),
        (("training.local.codes='fixed'", "preprocessing='declared'",
          "training.start='local'", "training.local.keep_embeddings=true"), "fedora"),
    ],
)  # fmt: skip
def test_default_method_after_a_local_start_is_the_exact_one(
    tmp_path: Path, changes: tuple[str, ...], method: str
) -> None:
    assert read(tmp_path, GOOD, *changes).agreement.unlearning.method == method


def test_a_method_can_run_alone(tmp_path: Path) -> None:
    plan = read(tmp_path, GOOD, *ALONE).agreement.unlearning
    assert (plan.retrains, plan.compare) == (0, ())


def test_a_single_retrain_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, GOOD, "unlearning.retrains=1")
    assert "'retrains' must not be 1, because one Retrain shows no spread" in error


def test_a_comparison_without_retrains_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, GOOD, "unlearning.retrains=0")
    assert "the key 'compare' must be empty" in error


def test_an_empty_comparison_with_retrains_names_the_way_to_none(tmp_path: Path) -> None:
    error = refusal(tmp_path, GOOD, "unlearning.compare=[]")
    assert "unlearning.compare must contain fine-tune, relabel" in error
    assert "set compare = [] and retrains = 0" in error


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("evaluation.shadows=4", "evaluation.shadows trains shadow models"),
        ("evaluation.relearn.max_steps=5", "evaluation.relearn trains"),
        ("evaluation.classifier_permutations=9", "evaluation.classifier_permutations compares"),
    ],
)
def test_an_audit_that_trains_or_needs_a_retrain_is_refused(
    tmp_path: Path, change: str, key: str
) -> None:
    error = refusal(tmp_path, GOOD, *ALONE, change)
    assert key in error
    assert "unlearning.retrains" in error
    read(tmp_path, GOOD, change)
