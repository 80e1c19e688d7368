# SPDX-License-Identifier: Apache-2.0
"""Random requests to OpenStack's placement and to ours, from empty databases on."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.differential.cloud import read_cloud
from tests.differential.comparison import PEER_PYTHON, Comparison, Finding, Outcome, minimize_parts
from tests.differential.differences import Differences
from tests.differential.episode import Episode
from tests.differential.exchange import Request
from tests.differential.generate.candidates import unlimited_candidates_request
from tests.differential.generate.dice import Dice
from tests.differential.generate.sequence import random_requests
from tests.differential.generate.setup import setup_requests
from tests.differential.oracle import parse_candidates
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement

#: Number of requests until both sides are cleared, which limits the history of a difference.
EPISODE = 200
#: Number of candidates queries per cloud.
QUERIES = 50
#: Maximum seconds to shorten a history.
SHORTENING = 60.0

#: The requests since both sides were empty. The last request shows the difference.
History = tuple[Request, ...]


class RequestComparison(Comparison):
    """Random requests of every kind. A case is a history of requests."""

    name, noun, many = "requests", "requests", 2000
    cases = Path(__file__).parent / "cases"

    @classmethod
    def open_sides(
        cls,
        folder: Path,
        python: Path = PEER_PYTHON,
        ours: str | None = None,
        theirs: str | None = None,
    ) -> Self:
        return cls(
            OwnPlacement(ours or f"sqlite:///{folder / 'ours.db'}"),
            OpenStackPlacementPeer(theirs or f"sqlite:///{folder / 'peer.db'}", python),
        )

    def random_outcomes(self, random: Random) -> Iterator[Outcome]:
        while True:
            yield from self._run_episode(islice(random_requests(random), EPISODE))

    def kind(self, case: History, unexplained: Differences) -> tuple[str, ...]:
        last = case[-1]
        statuses = [f"{key}:{value}" for key, value in unexplained.items() if key == "status"]
        return last.method, last.path.lstrip("/").partition("/")[0], *sorted(unexplained), *statuses

    def as_saved(self, case: History) -> list[Any]:
        return [request.as_json() for request in case]

    def replay(self, history: Iterable[Request]) -> Iterator[Differences]:
        episode = self.start_episode()
        parted = False
        for request in history:
            step = episode.step(request)
            parted = parted or step.parted
            yield step.unexplained
        yield {} if parted else episode.find_state_differences()

    def shorten(self, finding: Finding) -> Finding:
        aspects = set(finding.differences)
        only_state = all(aspect.startswith("state of") for aspect in aspects)

        def shows_difference(history: History) -> bool:
            *steps, state = self.replay(history)
            if only_state:
                return bool(aspects & state.keys())
            return bool(steps) and bool(aspects & steps[-1].keys())

        earlier = finding.case if only_state else finding.case[:-1]
        last = () if only_state else finding.case[-1:]
        if not shows_difference(earlier + last):
            return finding
        shortest = minimize_parts(
            earlier, lambda history: shows_difference(history + last), SHORTENING
        )
        return Finding((*shortest, *last), finding.differences, finding.kind)

    def start_episode(self) -> Episode:
        return Episode(self.ours, self.theirs)

    def _run_episode(self, requests: Iterable[Request]) -> Iterator[Outcome]:
        episode = self.start_episode()
        history: History = ()
        for request in requests:
            history = (*history, request)
            step = episode.step(request)
            status = step.answers.ours.status
            yield Outcome(history, step.unexplained, step.explained.elements(), [status])
            if step.parted:
                return
        yield Outcome(history, episode.find_state_differences(), counted=False)


class CandidatesComparison(RequestComparison):
    """Candidates queries without limit on random clouds.

    Our candidates are always compared with a naive search, too.
    """

    name, noun, many = "candidates", "queries", 500

    def random_outcomes(self, random: Random) -> Iterator[Outcome]:
        dice = Dice(random)
        while True:
            yield from self._compare_candidates(dice)

    def _compare_candidates(self, dice: Dice) -> Iterator[Outcome]:
        episode = self.start_episode()
        setup = tuple(setup_requests(dice))
        for request in setup:
            episode.step(request)
        episode.set_cloud(read_cloud(self.ours))
        for _ in range(QUERIES):
            request = unlimited_candidates_request(dice)
            step = episode.step(request)
            unexplained, coverage = step.unexplained, [step.answers.ours.status]
            if step.answers.ours.status == 200:
                coverage += ["served"] * bool(step.answers.expected_candidates)
                if not step.answers.is_our_answer_valid:
                    unexplained = {
                        **unexplained,
                        "naive": (
                            parse_candidates(step.answers.ours.document),
                            step.answers.expected_candidates,
                        ),
                    }
            yield Outcome((*setup, request), unexplained, step.explained.elements(), coverage)
