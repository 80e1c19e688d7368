# SPDX-License-Identifier: Apache-2.0
"""Sync of records with nova's databases, and the report of a sync."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

#: The kinds of records, in the order in which they are read and reported.
NOUNS = ("cells", "services", "compute nodes", "host aggregates", "server groups", "instances")
#: The kinds of differences.
Change = Literal["new", "changed", "gone"]
#: The types of the keys of records, and of the records.
K = TypeVar("K")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Count:
    """The numbers of records of a kind that were read, and that differ."""

    read: int = 0
    new: int = 0
    changed: int = 0
    gone: int = 0

    @property
    def differing(self) -> int:
        """The number of records that differ from nova's."""
        return self.new + self.changed + self.gone


@dataclass(frozen=True, slots=True)
class SyncIssue:
    """A record of nova that cannot be stored at all, or not completely.

    ``place`` names the record in nova's terms: ``compute node cn7 (3f2...)``, ``cell two``.
    """

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a record of this service and nova's.

    ``noun`` is in :data:`NOUNS`, and ``name`` is a display name. If ``kind`` is ``changed``,
    ``fields`` are the names of the fields that differ.
    """

    noun: str
    kind: Change
    name: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """The report of a sync.

    ``counts`` has an entry for each of :data:`NOUNS` that was read. ``issues`` are the records of
    nova that cannot be recorded here. Only a comparison lists ``differences``. ``away`` are the
    titles of the cells whose database did not answer.
    """

    counts: Mapping[str, Count]
    issues: tuple[SyncIssue, ...] = ()
    differences: tuple[Difference, ...] = ()
    away: tuple[str, ...] = ()
    #: The uuids, names and hosts of compute nodes that could not be read.
    unread: frozenset[str] = frozenset()
    seconds: float = 0.0

    @property
    def differing(self) -> int:
        """Return the number of records that differed from nova's before any write."""
        return sum(count.differing for count in self.counts.values())


@dataclass(slots=True)
class SyncTotals:
    """The running totals of a sync, for its report."""

    read: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    issues: dict[SyncIssue, None] = field(default_factory=dict)
    away: dict[str, None] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    #: Whether differences are listed, not only counted.
    naming: bool = False
    _counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add_read_count(self, noun: str, number: int) -> None:
        """Add to the number of records that were read."""
        self.read[noun] += number

    def add_difference(self, noun: str, name: str, fields: Iterable[str], *, new: bool) -> None:
        """Note a record that is new or differs from nova's record."""
        self._add_change(noun, "new" if new else "changed", name, () if new else fields)

    def add_deleted(self, noun: str, name: str) -> None:
        """Note a record that nova no longer has."""
        self._add_change(noun, "gone", name, ())

    def add_all(
        self,
        noun: str,
        recorded: Mapping[K, R],
        differing: Mapping[K, R],
        deleted: Iterable[K],
        names: Iterable[str],
        title: str,
    ) -> None:
        """Note new, changed and deleted records, named by the field ``title``."""
        for key, row in differing.items():
            fields = diff_fields(recorded.get(key), row, names)
            name = getattr(row, title) or str(key)
            self.add_difference(noun, name, fields, new=key not in recorded)
        for key in deleted:
            self.add_deleted(noun, getattr(recorded[key], title) or str(key))

    def _add_change(self, noun: str, kind: Change, name: str, fields: Iterable[str]) -> None:
        self._counts[noun][kind] += 1
        if self.naming:
            self.differences.append(Difference(noun, kind, name, tuple(fields)))

    def add_issue(self, place: str, reason: str) -> None:
        """Note an issue unless it is noted already."""
        self.issues[SyncIssue(place, reason)] = None

    def build_report(self, seconds: float) -> SyncReport:
        """Build the report of a sync that took ``seconds``."""
        counts = {
            noun: Count(self.read[noun], **self._counts[noun])
            for noun in NOUNS
            if noun in self.read or noun in self._counts
        }
        return SyncReport(
            counts=counts,
            issues=tuple(self.issues),
            differences=tuple(self.differences),
            away=tuple(self.away),
            unread=frozenset(self.unread),
            seconds=seconds,
        )


def diff_fields(recorded: object, current: object, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of differing fields (all if ``recorded`` is None)."""
    return tuple(
        name
        for name in names
        if recorded is None or getattr(recorded, name) != getattr(current, name)
    )


def find_differing(
    recorded: Mapping[K, R], current: Mapping[K, R], names: Iterable[str]
) -> dict[K, R]:
    """Return the current records that are new or differ in these fields."""
    return {key: row for key, row in current.items() if diff_fields(recorded.get(key), row, names)}


def has_changed(recorded: object, current: object, names: Iterable[str]) -> bool:
    """Return whether a record is new, deleted, or changed in these fields."""
    if recorded is None or current is None:
        return recorded is not current
    return bool(diff_fields(recorded, current, names))
