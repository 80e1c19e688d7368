"""Random requests to both sides, and what came of them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from tests.differential.cloud import cloud_of
from tests.differential.compare import Differences
from tests.differential.episode import Episode, Step
from tests.differential.exchange import Request
from tests.differential.generate.candidates import unlimited
from tests.differential.generate.dice import Dice
from tests.differential.generate.scene import scene
from tests.differential.generate.sequence import sequence
from tests.differential.oracle import told
from tests.differential.sides import Ours, Peer

#: After so many requests both start anew, so that what led to a difference is never long.
EPISODE = 200
#: So many questions are asked of one cloud.
QUESTIONS = 50


@dataclass(frozen=True)
class Finding:
    """An unexplained difference, and the requests since both were empty; the last one shows it."""

    history: tuple[Request, ...]
    differences: Differences

    @property
    def kind(self) -> tuple[str, ...]:
        """Return what findings of the same cause have in common, more or less."""
        last = self.history[-1]
        told = [f"{key}:{value}" for key, value in self.differences.items() if key == "status"]
        return (
            last.method,
            last.path.lstrip("/").partition("/")[0],
            *sorted(self.differences),
            *told,
        )


@dataclass
class Tally:
    """What came of a run: ``served`` is how many answers have ``candidates``, these all told."""

    requests: int = 0
    served: int = 0
    candidates: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def take(self, step: Step) -> None:
        """Count what one request showed."""
        self.requests += 1
        self.statuses[step.seen.ours.status] += 1
        self.explained += step.explained

    def add(self, other: "Tally") -> None:
        """Take in what came of another run."""
        self.requests += other.requests
        self.served += other.served
        self.candidates += other.candidates
        self.statuses += other.statuses
        self.explained += other.explained
        self.findings += other.findings


class Duel:
    """Two sides, asked in turn."""

    def __init__(self, ours: Ours, theirs: Peer) -> None:
        self._ours = ours
        self._theirs = theirs

    def run(self, seed: int, requests: int) -> Tally:
        """Send random requests, and return how often what differed."""
        tally = Tally()
        random = Random(seed)
        while tally.requests < requests:
            many = min(EPISODE, requests - tally.requests)
            self._episode(islice(sequence(random), many), tally)
        return tally

    def inquire(self, seed: int, questions: int) -> Tally:
        """Ask for all candidates in random clouds, and compare sets and summaries.

        Ours are held to a naive search every time, whether or not the peer agrees.
        """
        tally = Tally()
        dice = Dice(Random(seed))
        while tally.requests < questions:
            self._inquiry(dice, min(QUESTIONS, questions - tally.requests), tally)
        return tally

    def episode(self) -> Episode:
        """Return both sides, empty."""
        return Episode(self._ours, self._theirs)

    def replay(self, history: Iterable[Request]) -> Iterator[Differences]:
        """Yield, of each request of a history on empty sides, what differs and is not explained.

        What comes last is where their states differ in the end, unless that is explained.
        """
        episode = self.episode()
        parted = False
        for request in history:
            step = episode.step(request)
            parted = parted or step.parted
            yield step.left
        yield {} if parted else episode.apart()

    def _inquiry(self, dice: Dice, questions: int, tally: Tally) -> None:
        episode = self.episode()
        made = tuple(scene(dice))
        for request in made:
            episode.step(request)
        episode.know(cloud_of(self._ours))
        for _ in range(questions):
            request = unlimited(dice)
            step = episode.step(request)
            tally.take(step)
            left = step.left
            if step.seen.ours.status == 200:
                tally.candidates += step.seen.right.total()
                tally.served += bool(step.seen.right)
                if not step.seen.is_right:
                    left = {**left, "naive": (told(step.seen.ours.document), step.seen.right)}
            if left:
                tally.findings.append(Finding((*made, request), left))

    def _episode(self, requests: Iterable[Request], tally: Tally) -> None:
        episode = self.episode()
        history: list[Request] = []
        for request in requests:
            history.append(request)
            step = episode.step(request)
            tally.take(step)
            if step.left:
                tally.findings.append(Finding(tuple(history), step.left))
            if step.parted:
                return
        if left := episode.apart():
            tally.findings.append(Finding(tuple(history), left))
