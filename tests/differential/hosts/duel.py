"""Random cases to both sides, and what came of them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.differential.generate.dice import Dice
from tests.differential.hosts.case import Case
from tests.differential.hosts.compare import Differences, differences
from tests.differential.hosts.explained import Seen, explain
from tests.differential.hosts.generate.cases import case as random_case
from tests.differential.hosts.sides import Answer, Ours, Theirs


@dataclass(frozen=True)
class Finding:
    """A case that is judged otherwise than by nova, without an explanation."""

    case: Case
    differences: Differences

    @property
    def kind(self) -> tuple[str, ...]:
        """Return what findings of the same cause have in common, more or less."""
        return tuple(
            sorted(
                {
                    " ".join((kind, name, *map(_verdict, values)))
                    for (kind, name, _), values in self.differences.items()
                }
            )
        )


def _verdict(value: object) -> str:
    """Return what tells verdicts apart; numbers are all alike."""
    if isinstance(value, str):
        return " ".join(value.split()[:4])
    return str(value) if isinstance(value, bool) else ""


@dataclass
class Tally:
    """What came of a run; ``verdicts`` are nova's on each host, by filter."""

    cases: int = 0
    hosts: int = 0
    weighed: int = 0
    #: Instances for which hosts were looked for after others of their request.
    later: int = 0
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Nova's weighers, and whether they told hosts apart.
    telling: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Take in what came of another run."""
        self.cases += other.cases
        self.hosts += other.hosts
        self.weighed += other.weighed
        self.later += other.later
        self.verdicts += other.verdicts
        self.telling += other.telling
        self.explained += other.explained
        self.findings += other.findings

    def count(self, case: Case, theirs: Answer) -> None:
        """Take note of what nova said of a case."""
        self.cases += 1
        self.hosts += len(case.hosts)
        self.weighed += len(theirs.weighed)
        self.later += max(0, len(theirs.rounds) - 1)
        for name, verdicts in theirs.filters.items():
            for one in verdicts:
                said = "fails" if isinstance(one, str) else "passes" if one else "refuses"
                self.verdicts[name, said] += 1
        for name, told in theirs.weighers.items():
            self.telling[name] += isinstance(told, dict) and any(told["normalized"])


class Duel:
    """Two sides, asked in turn."""

    def __init__(self, ours: Ours, theirs: Theirs) -> None:
        self._ours = ours
        self._theirs = theirs

    def run(
        self, seed: int, cases: int, progress: Callable[[int], None] = lambda _done: None
    ) -> Tally:
        """Judge random cases, and return how often what differed."""
        tally = Tally()
        dice = Dice(Random(seed))
        for number in range(cases):
            progress(number)
            case = random_case(dice)
            seen, names, left = self.see(case)
            tally.count(case, seen.theirs)
            tally.explained.update(names)
            if left:
                tally.findings.append(Finding(case, left))
        return tally

    def see(self, case: Case) -> tuple[Seen, list[str], Differences]:
        """Return both answers to a case, what explains them, and what is left unexplained."""
        theirs = self._theirs.ask(case)
        seen = Seen(case, self._ours.ask(case, theirs), theirs)
        return seen, *explain(seen, differences(case, seen.ours, theirs))
