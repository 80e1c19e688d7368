"""Random requests to both sides, and what came of them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.differential.generate.dice import Dice
from tests.differential.nova.compare import Differences, differences
from tests.differential.nova.explained import Seen, explain
from tests.differential.nova.generate.cloud import cloud
from tests.differential.nova.generate.requests import Asked, request
from tests.differential.nova.sides import Ours, Theirs

#: So many requests are made in one cloud.
EPISODE = 25


@dataclass(frozen=True)
class Finding:
    """A request that is answered otherwise than by nova, without an explanation."""

    asked: Asked
    differences: Differences

    @property
    def kind(self) -> tuple[str, ...]:
        """Return what findings of the same cause have in common, more or less."""
        verdict = [str(value)[:60] for value in self.differences.get("verdict", ())]
        return (*sorted(self.differences), *verdict)


@dataclass
class Tally:
    """What came of a run; ``verdicts`` are nova's."""

    requests: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Take in what came of another run."""
        self.requests += other.requests
        self.verdicts += other.verdicts
        self.explained += other.explained
        self.findings += other.findings


class Duel:
    """Two sides, asked in turn."""

    def __init__(self, ours: Ours, theirs: Theirs) -> None:
        self._ours = ours
        self._theirs = theirs

    def run(
        self, seed: int, requests: int, progress: Callable[[int], None] = lambda _done: None
    ) -> Tally:
        """Send random requests, and return how often what differed."""
        tally = Tally()
        dice = Dice(Random(seed))
        here = cloud(dice)
        for number in range(requests):
            progress(number)
            if number % EPISODE == 0:
                here = cloud(dice)
            self._step(request(dice, here), tally)
        return tally

    def see(self, asked: Asked) -> tuple[Seen, list[str], Differences]:
        """Return both answers to a request, what explains them, and what is left unexplained."""
        seen = Seen(asked, self._ours.ask(asked), self._theirs.ask(asked), self._theirs.ask)
        return seen, *explain(seen, differences(asked, seen.ours, seen.theirs))

    def _step(self, asked: Asked, tally: Tally) -> None:
        seen, names, left = self.see(asked)
        tally.requests += 1
        tally.verdicts[seen.theirs.verdict] += 1
        tally.explained.update(names)
        if left:
            tally.findings.append(Finding(asked, left))
