"""``vfl unlearn notify``: whom a party has informed that a request was carried out."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from parties.cli.console import Console
from parties.cli.requests.place import acting_person
from parties.cli.requests.views import own_view, still_to_inform, view_of
from parties.common.errors import PolicyError, UsageProblem
from parties.requests.lifecycle import CARRIED_OUT, RequestView
from parties.requests.local_desk import LocalDesk
from parties.requests.persons import PersonRole
from unlearning.receipts.page import DataRecipient, NotificationResult, Notifications

_LONGEST_NAME = 200  # characters
_LONGEST_REASON = 1000  # characters
NO_RECIPIENT = "not-a-recipient"  # in place of a result: the name leaves the list


@dataclass(frozen=True, slots=True, kw_only=True)
class Informed:
    """The options of ``vfl unlearn notify``.

    Attributes:
        recipients: names of recipients that have the same result.
        result: a value of ``NotificationResult`` or ``NO_RECIPIENT``; None: not given.
        on: day of the result; None: today.
        reason: why the notification failed.
        requester: whether the requester was informed on this day.
        key: file with the key of the person who acts.
    """

    recipients: tuple[str, ...] = ()
    result: str | None = None
    on: datetime | None = None
    reason: str = ""
    requester: bool = False
    key: Path | None = None

    @property
    def lists(self) -> bool:
        """Whether nothing is recorded, so that the recipients are listed."""
        return not self.recipients and not self.requester

    def check(self) -> None:
        """Refuse options that do not fit together.

        Raises:
            UsageProblem: the options do not fit together.
        """
        if bool(self.recipients) is not (self.result is not None):
            raise UsageProblem(
                "expected --recipient and --result together",
                'give for example --recipient "Acme Analytics" --result notified',
            )
        if (self.result == NotificationResult.FAILED) is not bool(self.reason.strip()):
            raise UsageProblem(
                "--reason must be given with --result failed, and only with it",
                "say why the recipient cannot be notified, or why it would be a disproportionate "
                "effort",
            )
        if len(self.reason) > _LONGEST_REASON:
            raise UsageProblem(
                f"--reason has {len(self.reason)} characters; expected at most {_LONGEST_REASON}",
                "say it in one or two sentences",
            )
        for name in self.recipients:
            if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
                raise UsageProblem(
                    f"the name of a recipient has 1 to {_LONGEST_NAME} printable characters",
                    "give the name of the organisation or person that received the data",
                )
        undated = self.lists or self.result == NotificationResult.OPEN
        if self.on is not None and undated and not self.requester:
            raise UsageProblem("--on is the day of a result, but no result is given", "omit --on")

    def day(self, view: RequestView, now: datetime) -> str:
        """Return the day of the result, as ``2026-11-24``. Days are those of the local time zone.

        Raises:
            UsageProblem: the day lies in the future, or before the request was received.
        """
        today, received = now.astimezone().date(), view.received_at.astimezone().date()
        found = today if self.on is None else self.on.date()
        if found > today:
            raise UsageProblem("--on lies in the future", "give the day of the notification")
        if found < received:
            raise UsageProblem(
                f"--on lies before the request was received, {received}",
                "give the day of the notification",
            )
        return found.isoformat()

    def added_to(self, before: Notifications, day: str) -> Notifications:
        """Return whom the party has informed afterwards.

        Raises:
            UsageProblem: a name that is to be removed is not on the list.
        """
        found = {each.name: each for each in before.recipients}
        for name in (each.strip() for each in self.recipients):
            if self.result == NO_RECIPIENT:
                if found.pop(name, None) is None:
                    raise UsageProblem(
                        "a name with --result not-a-recipient is not on the list",
                        "vfl unlearn notify without options prints the list",
                    )
                continue
            result = NotificationResult(str(self.result))
            dated = "" if result is NotificationResult.OPEN else day
            found[name] = DataRecipient(name, result, dated, self.reason.strip())
        informed = day if self.requester else before.informed
        return replace(before, recipients=tuple(found.values()), informed=informed)


def notify(local: LocalDesk, request: str, informed: Informed, console: Console) -> None:
    """Record whom this party has informed about a request, or list what was recorded.

    Raises:
        UsageProblem: no request has the ID, or the options do not fit together.
        PolicyError: the request is not certified, was made at another party, or is purged.
    """
    informed.check()
    view = own_view(local, request) if informed.requester else view_of(local, request)
    if view.state not in CARRIED_OUT:
        raise PolicyError(
            f"the request {view.id} is {view.state.value}, so there is nothing to notify yet",
            "recipients are notified of a request when every party has signed its receipt",
        )
    if local.party.name in view.purged:
        raise PolicyError(
            f"the private record of the request {view.id} was purged",
            "keep later notifications with the files of your organisation",
        )
    if not informed.lists:
        acting_person(local, informed.key, PersonRole.OPERATOR)
        day = informed.day(view, local.party.now())
        with local.desk.journal.transaction():  # a second process of this party waits
            before = local.desk.notifications.of(view.id) or Notifications()
            local.desk.notify(view, informed.added_to(before, day))
    _print(local, view_of(local, request), console)


def _print(local: LocalDesk, view: RequestView, console: Console) -> None:
    """Print the recipients of the party with their results, and what is left to do."""
    found = local.desk.notifications.of(view.id) or Notifications()
    for each in found.recipients:
        console.print(
            f"{each.result.value:9} {each.day:10}  {each.name}"
            + (f": {each.reason}" if each.reason else ""),
            event="recipient",
            request=view.id,
            recipient=each.name,
            result=each.result.value,
            day=each.day,
            reason=each.reason,
        )
    recipients, requester = local.desk.to_inform(view)
    informed = f"; the requester was informed on {found.informed}" if found.informed else ""
    console.print(
        f"{view.id}  {view.state.value}  due {view.due_at:%Y-%m-%d}  "
        f"{still_to_inform(local, view) or 'nothing is left to do'}{informed}",
        event="notifications",
        request=view.id,
        state=view.state.value,
        recipients=len(found.recipients),
        open=recipients,
        failed=found.count(NotificationResult.FAILED),
        requester_informed=found.informed,
        requester_open=requester,
    )
