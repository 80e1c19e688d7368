# SPDX-License-Identifier: Apache-2.0
"""Sequences of requests to both sides, from an empty state on."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import unquote

from tests.differential.differences import Differences, differences, normalize, with_short_ratios
from tests.differential.exchange import Reply, Request
from tests.differential.explained import explain_differences
from tests.differential.explained.answer_pair import AnswerPair
from tests.differential.explained.writes import LEFT_BEHIND, SPELLING
from tests.differential.sides import Ours, Peer
from tests.differential.spelling import has_odd_uuid_spelling, with_canonical_uuids
from tests.differential.state import clear_state, dump_state, resolve_generations
from tests.support.clouds import Cloud
from tests.support.versions import PEER_LATEST

_READS = {"GET", "HEAD", "OPTIONS"}


class Step(NamedTuple):
    """Result of a request: replies, counts of explanations, and unexplained differences.

    ``parted`` is whether an explained difference has led to different states.
    """

    answers: AnswerPair
    explained: Counter[str]
    unexplained: Differences
    parted: bool


@dataclass(frozen=True)
class _RequestPair:
    """The request to each side."""

    ours: Request
    theirs: Request


class Episode:
    """A sequence of requests to two sides that are empty at first."""

    def __init__(self, ours: Ours, theirs: Peer) -> None:
        self._ours = ours
        self._theirs = theirs
        self._sent: list[_RequestPair] = []
        self._cloud: Cloud | None = None
        self._clear_both_sides()

    def set_cloud(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def step(self, request: Request) -> Step:
        step = self._explain_step(_RequestPair(request, request))
        if has_odd_uuid_spelling(request) and (
            step.unexplained or step.parted or self._accepted_but_states_differ(step.answers)
        ):
            return self._step_without_odd_spellings(request)
        return step

    def state_differences(self) -> Differences:
        ours, theirs = normalize(dump_state(self._ours)), normalize(dump_state(self._theirs))
        if self._ours.has_short_ratios:
            ours, theirs = with_short_ratios(ours), with_short_ratios(theirs)
        if ours == theirs:
            return {}
        keys = sorted(ours.keys() | theirs.keys())
        return {
            f"state of {key}": (ours.get(key), theirs.get(key))
            for key in keys
            if ours.get(key) != theirs.get(key)
        }

    def _step_without_odd_spellings(self, request: Request) -> Step:
        self._sent.pop()
        if request.method not in _READS:
            self._repeat_pending_requests()
        step = self._explain_step(_RequestPair(request, with_canonical_uuids(request)))
        step.explained[SPELLING] += 1
        if not step.unexplained and self._accepted_but_states_differ(step.answers):
            return step._replace(unexplained=self.state_differences())
        return step

    def _repeat_pending_requests(self) -> None:
        self._clear_both_sides()
        for pair in self._sent:
            self._align_sides(self._send_to_both_sides(pair))

    def _explain_step(self, pair: _RequestPair) -> Step:
        self._sent.append(pair)
        answers = self._send_to_both_sides(pair)
        explained = Counter({LEFT_BEHIND: self._align_sides(answers)})
        found = differences(pair.ours, answers.ours, answers.theirs)
        names, unexplained = explain_differences(answers, found)
        explained.update(names)
        may_part = found.keys() & {"status", "body"} and pair.ours.method not in _READS
        return Step(answers, explained, unexplained, bool(may_part and self.state_differences()))

    def _accepted_but_states_differ(self, answers: AnswerPair) -> bool:
        is_accepted = answers.request.method not in _READS and answers.ours.status < 300
        return is_accepted and bool(self.state_differences())

    def _send_to_both_sides(self, pair: _RequestPair) -> AnswerPair:
        ours = resolve_generations(self._ours, pair.ours)
        theirs = ours if pair.theirs == pair.ours else resolve_generations(self._ours, pair.theirs)
        replies = self._request_both_sides(
            ours, self._ours.get_answer(ours), self._theirs.get_answer(theirs)
        )
        return AnswerPair(ours, *replies, self._ours, self._theirs, self._cloud)

    def _align_sides(self, answers: AnswerPair) -> int:
        path = unquote(answers.request.path)
        may_leave = answers.request.method in {"PUT", "POST"} and "/allocations" in path
        return self._theirs.remove_leftovers() if may_leave or path == "/reshaper" else 0

    def _request_both_sides(
        self, request: Request, ours: Reply, theirs: Reply
    ) -> tuple[Reply, Reply]:
        made = [reply.headers.get("location", "") for reply in (ours, theirs)]
        if request.method != "POST" or not all(made) or made[0] == made[1]:
            return ours, theirs
        for side, location in zip((self._ours, self._theirs), made, strict=True):
            path = location.removeprefix("http://placement")
            side.get_answer(Request("DELETE", path, PEER_LATEST))
        return _without_created_uuid(ours, made[0]), _without_created_uuid(theirs, made[1])

    def _clear_both_sides(self) -> None:
        clear_state(self._ours)
        clear_state(self._theirs)


def _without_created_uuid(reply: Reply, location: str) -> Reply:
    uuid = location.rpartition("/")[2]
    headers = {name: value.replace(uuid, "made") for name, value in reply.headers.items()}
    return replace(reply, headers=headers, body=reply.body.replace(uuid.encode(), b"made"))
