"""What a reading of nova's databases found: counts, differences, and what does not fit."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from oslo_log import log

LOG = log.getLogger(__name__)

#: So many misfits are remembered as logged, and no more are logged.
_MOST = 1000
#: What is read, in the order in which it is read and reported.
NOUNS = ("cells", "services", "compute nodes", "host aggregates", "server groups", "instances")
#: What became of one thing, or would become of it.
Change = Literal["new", "changed", "gone"]


@dataclass(frozen=True, slots=True)
class Count:
    """How many of a noun were read, and how many of them differed from what is recorded here."""

    read: int = 0
    new: int = 0
    changed: int = 0
    gone: int = 0

    @property
    def differing(self) -> int:
        """Return how many are not recorded as nova has them."""
        return self.new + self.changed + self.gone


@dataclass(frozen=True, slots=True)
class Misfit:
    """One thing of nova's that cannot be recorded, or not as nova has it: where, and why.

    ``place`` names it in nova's words: ``compute node cn7 (3f2...)``, ``cell two``.
    """

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Unlike:
    """One thing that is recorded here otherwise than nova has it.

    ``noun`` is one of :data:`NOUNS`, ``name`` what people call it, ``fields`` the names of what
    differs where it is changed.
    """

    noun: str
    kind: Change
    name: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What one reading found.

    ``counts`` is by noun and has every one of :data:`NOUNS` that was read. ``misfits`` is what does
    not fit. ``unlike`` names each difference, after a comparison only. ``away`` has the title of
    each cell whose database did not answer. ``seconds`` is the time taken.
    """

    counts: Mapping[str, Count]
    misfits: tuple[Misfit, ...] = ()
    unlike: tuple[Unlike, ...] = ()
    away: tuple[str, ...] = ()
    #: The uuids, names and hosts of compute nodes that could not be read.
    unread: frozenset[str] = frozenset()
    seconds: float = 0.0

    @property
    def differing(self) -> int:
        """Return how many things are not (or, after a reading, were not) recorded as nova's."""
        return sum(count.differing for count in self.counts.values())


@dataclass(slots=True)
class Account:
    """A reading under way: takes what its steps find; :meth:`findings` sums it up."""

    read: Counter[str] = field(default_factory=Counter)
    unlike: list[Unlike] = field(default_factory=list)
    misfits: dict[Misfit, None] = field(default_factory=dict)
    away: dict[str, None] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    #: Whether differences are named, and not only counted.
    naming: bool = False
    _counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def note_read(self, noun: str, number: int) -> None:
        """Note that so many were read."""
        self.read[noun] += number

    def differs(self, noun: str, name: str, fields: Iterable[str], *, new: bool) -> None:
        """Note that one thing is not recorded yet, or otherwise than nova has it."""
        self._note(noun, "new" if new else "changed", name, () if new else fields)

    def gone(self, noun: str, name: str) -> None:
        """Note that one thing is recorded that nova has not (any more)."""
        self._note(noun, "gone", name, ())

    def _note(self, noun: str, kind: Change, name: str, fields: Iterable[str]) -> None:
        self._counts[noun][kind] += 1
        if self.naming:
            self.unlike.append(Unlike(noun, kind, name, tuple(fields)))

    def misfit(self, place: str, reason: str) -> None:
        """Note what does not fit, once."""
        self.misfits[Misfit(place, reason)] = None

    def findings(self, seconds: float) -> Findings:
        """Return what was found, after so many seconds."""
        counts = {
            noun: Count(self.read[noun], **self._counts[noun])
            for noun in NOUNS
            if noun in self.read or noun in self._counts
        }
        return Findings(
            counts=counts,
            misfits=tuple(self.misfits),
            unlike=tuple(self.unlike),
            away=tuple(self.away),
            unread=frozenset(self.unread),
            seconds=seconds,
        )


class MisfitLog:
    """Logs each misfit once."""

    def __init__(self) -> None:
        self._logged: set[Misfit] = set()

    def log(self, misfit: Misfit) -> None:
        """Log a misfit that was not logged before."""
        if misfit not in self._logged and len(self._logged) < _MOST:
            self._logged.add(misfit)
            LOG.warning("%s", misfit)
