"""One tree of errors under `PenstockError`.

A message says what is wrong, where, why, and what to do instead. Errors that concern a filter carry its text and the
position in it, and print a caret line under the offending part.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

_CONTEXT = 60  # characters of a long filter shown on either side of the error
_LONGEST = 300  # characters of a name or literal that are repeated in a message


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class PenstockError(Exception):
    """Base of every error that Penstock raises on purpose."""


class FilterError(PenstockError):
    """A filter that can't be subscribed: where in its text, and why.

    >>> print(FilterError("prise > 5", "unknown attribute 'prise'", 0, 5, hint="did you mean 'price'?"))
    unknown attribute 'prise' at line 1, column 1
      prise > 5
      ^^^^^
      did you mean 'price'?
    """

    def __init__(
        self,
        text: str,
        reason: str,
        start: int | None = None,
        end: int | None = None,
        *,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.text = text
        self.reason = _clipped(reason)
        self.start = start
        self.end = end
        self.expected = expected and _clipped(expected)
        self.found = found and _clipped(found)
        self.hint = hint and _clipped(hint)
        super().__init__(text, reason, start, end)

    def __reduce__(self) -> tuple[object, ...]:
        rebuild = functools.partial(
            FilterError, expected=self.expected, found=self.found, hint=self.hint
        )
        return rebuild, (self.text, self.reason, self.start, self.end)

    def __str__(self) -> str:
        lines = [self.reason + self._where()]
        lines += self._excerpt()
        if self.expected is not None:
            lines.append(f"  expected: {self.expected}")
        if self.found is not None:
            lines.append(f"  found:    {self.found}")
        if self.hint is not None:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)

    def _where(self) -> str:
        if self.start is None:
            return ""
        before = self.text[: self.start]
        line = before.count("\n") + 1
        column = self.start - (before.rfind("\n") + 1) + 1
        return f" at line {line}, column {column}"

    def _excerpt(self) -> list[str]:
        start = self.start or 0
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", start)
        line_end = len(self.text) if line_end < 0 else line_end
        first = max(line_start, start - _CONTEXT)
        last = min(line_end, start + _CONTEXT)
        head = "…" if first > line_start else ""
        tail = "…" if last < line_end else ""
        lines = [f"  {head}{self.text[first:last]}{tail}"]
        if self.start is not None:
            end = min(self.end if self.end is not None else start + 1, last)
            indent = " " * (2 + len(head) + start - first)
            lines.append(indent + "^" * max(1, end - start))
        return lines


class _ManyProblems(Exception):
    """Everything that is wrong with something, at once."""

    where: str

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        count = len(self.problems)
        lines = [f"{count} problem{'s' if count != 1 else ''} in the {self.where}"]
        return "\n".join(lines + [f"  - {_clipped(problem)}" for problem in self.problems])


class SubscriptionErrors(PenstockError):
    """All the errors of a batch of subscriptions at once: pairs of subscription id and error."""

    SHOWN = 10

    def __init__(self, errors: Sequence[tuple[int | None, FilterError]]) -> None:
        self.errors = list(errors)
        super().__init__(self.errors)

    def __str__(self) -> str:
        count = len(self.errors)
        lines = [f"{count} subscription{'s' if count != 1 else ''} refused"]
        for sid, error in self.errors[: self.SHOWN]:
            lines.append(f"subscription {sid}: {error}" if sid is not None else str(error))
        if count > self.SHOWN:
            lines.append(f"… and {count - self.SHOWN} more (see .errors)")
        return "\n".join(lines)


class SchemaError(PenstockError):
    """A schema that can't be read, or events that don't fit theirs."""


class CatalogError(PenstockError, _ManyProblems):
    """A catalogue of tables with problems: all of them at once."""

    where = "catalogue"


class RegistryError(PenstockError):
    """The registry can't be opened, read or written."""


class UnknownSubscription(RegistryError):
    """No live subscription has this id."""


class TicketError(RegistryError):
    """The ticket doesn't belong to the subscription (or there is no such subscription: the same answer for both)."""


class LeaseError(RegistryError):
    """A lease that can't be read, or is out of bounds."""


class ServiceError(PenstockError):
    """The service refused a request, or answered what isn't an answer of Penstock.

    `status` is HTTP's, None if there was no answer; `problem` is what the answer said (RFC 9457), perhaps nothing.
    """

    def __init__(
        self, message: str, status: int | None = None, problem: Mapping[str, Any] | None = None
    ) -> None:
        self.status = status
        self.problem = dict(problem or {})
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.status, self.problem)


class ServiceUnreachable(ServiceError):
    """The service couldn't be reached, or broke off, for as long as the caller had patience."""


class FeedGone(ServiceError):
    """What a reader asks for has left the feed: it was away for longer than the feed keeps notifications."""


class RecordsRefused(ServiceError):
    """Records that were not published: each with the reason, in the order in which they were given.

    `refused` has the first of them as pairs of record and reason, `count` says how many there are, and `accepted` how
    many others were published.
    """

    SHOWN = 10

    def __init__(self, refused: Sequence[tuple[str, str]], count: int, accepted: int) -> None:
        self.refused = list(refused)
        self.count = count
        self.accepted = accepted
        were = "record was" if count == 1 else "records were"
        lines = [f"{count:,} {were} not published, {accepted:,} others were"]
        lines += [
            f"  {_clipped(reason)}: {record[:100]}" for record, reason in refused[: self.SHOWN]
        ]
        if count > self.SHOWN:
            lines.append(f"  … and {count - self.SHOWN:,} more (see .refused)")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.refused, self.count, self.accepted)


class OperatorError(PenstockError):
    """An operator that can't be registered, found or called, or whose answers can't be dealt with."""


class SnapshotError(PenstockError):
    """A snapshot that is torn, foreign or missing."""


class PipelineError(PenstockError):
    """A pipeline that can't start or go on."""


class ConfigError(PipelineError, _ManyProblems):
    """A pipeline description with problems: all of them at once."""

    where = "pipeline description"


class SettingsError(ConfigError):
    """A service description with problems: all of them at once."""

    where = "service description"


class FeedError(PenstockError):
    """A feed store that can't be opened, read or written."""


class RowsDropped(FeedError):
    """Rows at or above the offset that was asked for were dropped: the reader has missed them.

    The service answers 410 then, and its client raises `FeedGone`.

    `subscription` is the subscription whose feed was read; None if the offset is past everything in the store. From
    offset `oldest` on, the feed is complete.
    """

    def __init__(self, subscription: int | None, offset: int, oldest: int) -> None:
        self.subscription = subscription
        self.offset = offset
        self.oldest = oldest
        super().__init__(subscription, offset, oldest)

    def __str__(self) -> str:
        if self.subscription is None:
            return f"offset {self.offset} is ahead of all that is there: read on from {self.oldest}"
        return (
            f"notifications of subscription {self.subscription} at or above offset {self.offset} are no longer kept: "
            f"the oldest that are have offset {self.oldest} or a later one"
        )


class ExpensiveSubscription(UserWarning):
    """A subscription that will cost much more than most: the message says why."""
