# SPDX-License-Identifier: Apache-2.0
"""Random requests to OpenStack's placement and to ours, from empty databases on."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Self

from tests.differential.cloud import read_cloud
from tests.differential.comparison import (
    PEER_PYTHON,
    CaseOutcome,
    Comparison,
    Finding,
    minimize_failing_parts,
)
from tests.differential.differences import Differences
from tests.differential.exchange import Request
from tests.differential.generate.candidates import random_candidates_request_without_limit
from tests.differential.generate.random_values import RandomSource
from tests.differential.generate.sequence import random_requests
from tests.differential.generate.setup import random_setup_requests
from tests.differential.oracle import parse_candidates
from tests.differential.request_sequence import RequestSequenceComparison
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement

#: Number of requests until both sides are cleared, which limits the history of a difference.
REQUESTS_PER_SEQUENCE = 200
#: Number of candidates queries per cloud.
QUERIES_PER_CLOUD = 50
#: Maximum seconds to shorten a history.
MAX_SHORTENING_SECONDS = 60.0

#: The requests since both sides were empty. The last request shows the difference.
RequestHistory = tuple[Request, ...]


class RequestComparison(Comparison):
    """Random requests of every kind. A case is a history of requests."""

    name, noun, default_count = "requests", "requests", 2000
    cases_folder = Path(__file__).parent / "cases"

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

    def draw_outcomes(self, random: Random) -> Iterator[CaseOutcome]:
        while True:
            yield from self._compare_random_sequence(
                islice(random_requests(random), REQUESTS_PER_SEQUENCE)
            )

    def build_finding_kind(self, case: RequestHistory, unexplained: Differences) -> tuple[str, ...]:
        last = case[-1]
        statuses = [f"{key}:{value}" for key, value in unexplained.items() if key == "status"]
        return last.method, last.path.lstrip("/").partition("/")[0], *sorted(unexplained), *statuses

    def to_saved_json(self, case: RequestHistory) -> list[Any]:
        return [request.as_json() for request in case]

    def replay_history(self, history: Iterable[Request]) -> Iterator[Differences]:
        sequence = self.start_sequence()
        parted = False
        for request in history:
            step = sequence.send_request(request)
            parted = parted or step.has_different_states
            yield step.unexplained
        yield {} if parted else sequence.find_state_differences()

    def shorten_finding(self, finding: Finding) -> Finding:
        aspects = set(finding.differences)
        only_state = all(aspect.startswith("state of") for aspect in aspects)

        def shows_difference(history: RequestHistory) -> bool:
            *steps, state = self.replay_history(history)
            if only_state:
                return bool(aspects & state.keys())
            return bool(steps) and bool(aspects & steps[-1].keys())

        earlier = finding.case if only_state else finding.case[:-1]
        last = () if only_state else finding.case[-1:]
        if not shows_difference(earlier + last):
            return finding
        shortest = minimize_failing_parts(
            earlier, lambda history: shows_difference(history + last), MAX_SHORTENING_SECONDS
        )
        return Finding((*shortest, *last), finding.differences, finding.kind)

    def start_sequence(self) -> RequestSequenceComparison:
        return RequestSequenceComparison(self.ours, self.theirs)

    def _compare_random_sequence(self, requests: Iterable[Request]) -> Iterator[CaseOutcome]:
        sequence = self.start_sequence()
        history: RequestHistory = ()
        for request in requests:
            history = (*history, request)
            step = sequence.send_request(request)
            status = step.responses.ours.status
            yield CaseOutcome(history, step.unexplained, step.explained.elements(), [status])
            if step.has_different_states:
                return
        yield CaseOutcome(history, sequence.find_state_differences(), counted=False)


class CandidatesComparison(RequestComparison):
    """Candidates queries without limit on random clouds.

    Our candidates are always compared with a naive search, too.
    """

    name, noun, default_count = "candidates", "queries", 500

    def draw_outcomes(self, random: Random) -> Iterator[CaseOutcome]:
        rng = RandomSource(random)
        while True:
            yield from self._compare_candidates(rng)

    def _compare_candidates(self, rng: RandomSource) -> Iterator[CaseOutcome]:
        sequence = self.start_sequence()
        setup = tuple(random_setup_requests(rng))
        for request in setup:
            sequence.send_request(request)
        sequence.set_cloud(read_cloud(self.ours))
        for _ in range(QUERIES_PER_CLOUD):
            request = random_candidates_request_without_limit(rng)
            step = sequence.send_request(request)
            unexplained, coverage = step.unexplained, [step.responses.ours.status]
            if step.responses.ours.status == 200:
                coverage += ["served"] * bool(step.responses.expected_candidates)
                if not step.responses.is_our_response_valid:
                    unexplained = {
                        **unexplained,
                        "naive": (
                            parse_candidates(step.responses.ours.document),
                            step.responses.expected_candidates,
                        ),
                    }
            yield CaseOutcome((*setup, request), unexplained, step.explained.elements(), coverage)
