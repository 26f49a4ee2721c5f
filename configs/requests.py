"""The tables [requests] of an agreement and of party settings: requests after the training."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from configs.table import ConfigTable, Count, PathText

RecipientName = Annotated[str, Field(min_length=1, max_length=200)]


class RequestTerms(ConfigTable):
    """Terms of requests that all modes share."""

    # What every party keeps after a run: the model with the state that later requests need, or
    # nothing. Without a kept model, a later request needs a new training.
    keep: Literal["model", "nothing"] = "model"
    # Hours that an authorised request waits for others, so that several are carried out together.
    window_hours: Annotated[float, Field(ge=0, le=8760)] = 0.0
    # Days until a request is due. Article 12(3) of the GDPR allows one month, so up to 31 days end
    # after one calendar month at the latest.
    due_days: Annotated[int, Field(ge=1, le=365)] = 30
    separate_persons: bool = False  # whether another person than the requester must approve

    @model_validator(mode="after")
    def _window_ends_before_requests_are_due(self) -> Self:
        if self.window_hours >= 24 * self.due_days:
            raise ValueError(
                f"window_hours = {self.window_hours:g} is not shorter than due_days = "
                f"{self.due_days}: requests must be carried out before they are due"
            )
        return self


class FederatedRequestSettings(RequestTerms):
    """Requests to forget, which any party of a run with a server can raise after the training."""

    added_later: ClassVar[frozenset[str]] = frozenset({"guard", "audit"})

    # What every party keeps after a run: the model, for later requests, or nothing.
    keep: Literal["model", "nothing"] = "nothing"
    # Largest loss of accuracy on the remaining clients' validation rows, or for language models of
    # the probability of their retained answers; a model that loses more is not delivered. A request
    # to forget labels has no such limit, because validation rows have the same labels.
    guard: Annotated[float, Field(ge=0, le=1)] = 0.05
    # What is measured when a request is carried out: nothing; what needs no Retrain; or also a
    # comparison with unlearning.retrains Retrains, which takes about as long as that many
    # trainings.
    audit: Literal["none", "quick", "full"] = "quick"


class RequestSettings(RequestTerms):
    """Requests to forget rows, which any party can raise after the training."""

    added_later: ClassVar[frozenset[str]] = frozenset({"absent"})

    # Largest loss of accuracy on validation rows, or of R² if the label is a number; a model that
    # loses more is not delivered.
    guard: Annotated[float, Field(ge=0, le=1)] = 0.05
    # What is measured when a request is carried out: nothing; what needs no Retrain; or also a
    # comparison with Retrains, which takes about as long as that many trainings.
    audit: Literal["none", "quick", "full"] = "quick"
    # Days for which every party keeps the model from before a request, which still knows the
    # forgotten rows: vfl replay and vfl compare need it. 0: it is destroyed at once.
    replay_days: Annotated[int, Field(ge=0, le=365)] = 0
    # While a passive party is absent. refuse: nobody predicts, and requests wait. fallback: the
    # active party predicts with a fallback model, which it trains alone on kept embeddings of all
    # parties, without the rows of requests. The embeddings are of bottom models that every party
    # fitted alone; every version of the model has them, for one more pass over the rows.
    absent: Literal["refuse", "fallback"] = "refuse"


class PartyRequestSettings(ConfigTable):
    """How a party decides about requests, and who may act for it."""

    # automatic: the party approves every request whose signatures are valid. roles: persons with
    # the necessary roles make and approve requests; each of them signs with a key of their own.
    policy: Literal["automatic", "roles"] = "automatic"
    # File with the persons of the party, their roles and public keys; vfl keys writes it.
    persons: PathText | None = None
    # Recipients to whom the party regularly discloses data. They are to be notified of every
    # request that was carried out (GDPR Art. 19); vfl unlearn notify records the results.
    recipients: tuple[RecipientName, ...] = ()
    # Days after the end of a request until vfl unlearn purge deletes its private record.
    retention_days: Count = 1095

    @model_validator(mode="after")
    def _roles_need_persons(self) -> Self:
        if self.policy == "roles" and self.persons is None:
            raise ValueError(
                "policy = 'roles' needs the key 'persons': make a file of persons with vfl keys "
                'add, and name it with persons = "persons.toml"'
            )
        return self
