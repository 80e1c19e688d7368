"""What is least to change for a request that found no host: one sentence for each change."""

from collections.abc import Sequence
from dataclasses import dataclass

from placement_sched.model.document import Json
from placement_sched.model.verdict import Remedy

#: So many hosts are named.
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldFit:
    """The hosts that would be found but for some stages, and what changes that, in a sentence.

    ``without`` are family and name of the stages; each of the hosts, known as ``hosts``, passes all
    others. ``exact`` is false where there may be more hosts than were tried.
    """

    without: tuple[tuple[str, str], ...]
    hosts: tuple[str, ...]
    why: str
    change: Remedy | None = None
    exact: bool = True

    @property
    def words(self) -> str:
        """Return the sentence."""
        number = len(self.hosts)
        some = self.hosts[0] if number == 1 and self.exact else f"{number} host{'s' * (number > 1)}"
        return f"{'' if self.exact else 'at least '}{some} {self.why}"

    def as_json(self) -> Json:
        """Return the entry of ``would_fit``."""
        return {
            "words": self.words,
            "hosts": len(self.hosts),
            "exact": self.exact,
            "examples": list(self.hosts[:_NAMED]),
            "without": [{"stage": stage, "name": name} for stage, name in self.without],
            "change": self.change and self.change.as_json(),
        }


def least(found: Sequence[WouldFit]) -> tuple[WouldFit, ...]:
    """Return those without the fewest stages, the one with most hosts first."""
    fewest = min((len(one.without) for one in found), default=0)
    some = [one for one in found if len(one.without) == fewest]
    return tuple(sorted(some, key=lambda one: (-len(one.hosts), one.without, one.why)))
