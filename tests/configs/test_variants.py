"""Variants of a method: its settings with some of them replaced."""

import pytest
from pydantic import ValidationError

from configs.client_unlearning import ClientUnlearning
from configs.language_unlearning import TextUnlearning
from parties.horizontal.methods.fedosd import FedOsdSettings
from parties.horizontal.registry import AGREEMENT as HORIZONTAL
from parties.language.registry import AGREEMENT as LANGUAGE

PLAN = {"fedosd": {"unlearn": {"rounds": 7}, "project": "always"}}


CLIENTS: type[ClientUnlearning] = HORIZONTAL.model_fields["unlearning"].annotation  # type: ignore[assignment]
TEXTS: type[TextUnlearning] = LANGUAGE.model_fields["unlearning"].annotation  # type: ignore[assignment]


def plan(*variants: dict[str, object]) -> ClientUnlearning:
    return CLIENTS.model_validate({**PLAN, "variants": variants}, strict=False)


def osd(settings: ClientUnlearning) -> FedOsdSettings:
    found = settings.table("fedosd")
    assert isinstance(found, FedOsdSettings)
    return found


def test_variant_changes_only_its_own_settings() -> None:
    settings = {"variant": "ascent", "unlearn": {"learning_rate": 0.5}}
    agreement = plan({"name": "m1", "method": "fedosd", "settings": settings})
    own = osd(agreement.at(agreement.variants[0]))
    assert (own.variant, own.project) == ("ascent", "always")
    assert (own.unlearn.rounds, own.unlearn.learning_rate) == (7, 0.5)
    assert osd(agreement).variant == "full"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "none"}, r"variant 'm1': fedosd\.variant: Input should be 'full'"),
        ({"strength": 1}, r"variant 'm1': fedosd\.strength: Extra inputs"),
        ({"unlearn": 3}, r"variant 'm1': fedosd\.unlearn: "),
    ],
)
def test_invalid_settings_of_a_method_are_refused(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        plan({"name": "m1", "method": "fedosd", "settings": settings})


def test_a_method_without_settings_has_no_variant() -> None:
    with pytest.raises(ValidationError, match=r"variant 'm1': knot: Extra inputs"):
        plan({"name": "m1", "method": "knot", "settings": {"rounds": 1}})


@pytest.mark.parametrize("name", ["original", "retrain-2"])
@pytest.mark.parametrize("kind", [CLIENTS, TEXTS])
def test_names_of_references_are_reserved(
    kind: type[ClientUnlearning | TextUnlearning], name: str
) -> None:
    variants = [{"name": name, "method": "fine-tune", "settings": {}}]
    with pytest.raises(ValidationError, match="must not begin with 'retrain' or 'original'"):
        kind.model_validate({"variants": variants}, strict=False)


@pytest.mark.parametrize("name", ["fedosd", "m1"])
def test_duplicate_variant_name_is_refused(name: str) -> None:
    first = {"name": "m1", "method": "fedosd", "settings": {}}
    with pytest.raises(ValidationError, match="has the name of another variant or of a method"):
        plan(first, {"name": name, "method": "fedosd", "settings": {}})


@pytest.mark.parametrize("kind", [CLIENTS, TEXTS])
def test_a_federated_method_can_run_alone(
    kind: type[ClientUnlearning | TextUnlearning],
) -> None:
    assert kind.model_validate({"retrains": 0, "compare": []}, strict=False).retrains == 0
    with pytest.raises(ValidationError, match="the key 'compare' must be empty"):
        kind.model_validate({"retrains": 0}, strict=False)
    again = {"name": "m1", "method": "fine-tune", "settings": {}}
    with pytest.raises(ValidationError, match="the key 'variants' must be empty"):
        kind.model_validate({"retrains": 0, "compare": [], "variants": [again]}, strict=False)
