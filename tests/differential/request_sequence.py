# SPDX-License-Identifier: Apache-2.0
"""Sequences of requests to both sides, from an empty state on."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import unquote

from tests.differential.differences import (
    Differences,
    find_differences,
    round_numbers_to_six_digits,
    sort_keys_and_lists,
)
from tests.differential.exchange import Reply, Request
from tests.differential.explained import explain_differences
from tests.differential.explained.response_pair import ResponsePair
from tests.differential.explained.writes import (
    EMPTY_CONSUMER_EXPLANATION,
    UUID_SPELLING_EXPLANATION,
)
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement
from tests.differential.spelling import canonicalize_uuids_of_request, has_odd_uuid_spelling
from tests.differential.state import clear_service_state, read_service_state, resolve_generations
from tests.support.clouds import Cloud
from tests.support.versions import PEER_LATEST

_READ_METHODS = {"GET", "HEAD", "OPTIONS"}


class ComparedReplies(NamedTuple):
    """Result of a request: replies, counts of explanations, and unexplained differences.

    ``has_different_states`` is whether an explained difference has led to different states.
    """

    responses: ResponsePair
    explained: Counter[str]
    unexplained: Differences
    has_different_states: bool


@dataclass(frozen=True)
class _RequestPair:
    """The request to each side."""

    ours: Request
    theirs: Request


class RequestSequenceComparison:
    """A sequence of requests to two sides that are empty at first."""

    def __init__(self, ours: OwnPlacement, theirs: OpenStackPlacementPeer) -> None:
        self._ours = ours
        self._theirs = theirs
        self._sent: list[_RequestPair] = []
        self._cloud: Cloud | None = None
        self._clear_both_sides()

    def set_cloud(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def send_request(self, request: Request) -> ComparedReplies:
        step = self._send_and_explain(_RequestPair(request, request))
        if has_odd_uuid_spelling(request) and (
            step.unexplained
            or step.has_different_states
            or self._is_accepted_with_different_states(step.responses)
        ):
            return self._compare_with_canonical_uuids(request)
        return step

    def find_state_differences(self) -> Differences:
        ours, theirs = (
            sort_keys_and_lists(read_service_state(self._ours)),
            sort_keys_and_lists(read_service_state(self._theirs)),
        )
        if self._ours.has_short_ratios:
            ours, theirs = round_numbers_to_six_digits(ours), round_numbers_to_six_digits(theirs)
        if ours == theirs:
            return {}
        keys = sorted(ours.keys() | theirs.keys())
        return {
            f"state of {key}": (ours.get(key), theirs.get(key))
            for key in keys
            if ours.get(key) != theirs.get(key)
        }

    def _compare_with_canonical_uuids(self, request: Request) -> ComparedReplies:
        self._sent.pop()
        if request.method not in _READ_METHODS:
            self._repeat_earlier_requests()
        step = self._send_and_explain(_RequestPair(request, canonicalize_uuids_of_request(request)))
        step.explained[UUID_SPELLING_EXPLANATION] += 1
        if not step.unexplained and self._is_accepted_with_different_states(step.responses):
            return step._replace(unexplained=self.find_state_differences())
        return step

    def _repeat_earlier_requests(self) -> None:
        self._clear_both_sides()
        for pair in self._sent:
            self._delete_leftover_consumers_of_peer(self._send_to_both_sides(pair))

    def _send_and_explain(self, pair: _RequestPair) -> ComparedReplies:
        self._sent.append(pair)
        responses = self._send_to_both_sides(pair)
        explained = Counter(
            {EMPTY_CONSUMER_EXPLANATION: self._delete_leftover_consumers_of_peer(responses)}
        )
        differences = find_differences(pair.ours, responses.ours, responses.theirs)
        names, unexplained = explain_differences(responses, differences)
        explained.update(names)
        may_part = differences.keys() & {"status", "body"} and pair.ours.method not in _READ_METHODS
        return ComparedReplies(
            responses, explained, unexplained, bool(may_part and self.find_state_differences())
        )

    def _is_accepted_with_different_states(self, responses: ResponsePair) -> bool:
        is_accepted = responses.request.method not in _READ_METHODS and responses.ours.status < 300
        return is_accepted and bool(self.find_state_differences())

    def _send_to_both_sides(self, pair: _RequestPair) -> ResponsePair:
        ours = resolve_generations(self._ours, pair.ours)
        theirs = ours if pair.theirs == pair.ours else resolve_generations(self._ours, pair.theirs)
        replies = self._delete_providers_with_generated_uuids(
            ours, self._ours.send_request(ours), self._theirs.send_request(theirs)
        )
        return ResponsePair(ours, *replies, self._ours, self._theirs, self._cloud)

    def _delete_leftover_consumers_of_peer(self, responses: ResponsePair) -> int:
        path = unquote(responses.request.path)
        may_leave = responses.request.method in {"PUT", "POST"} and "/allocations" in path
        return (
            self._theirs.delete_consumers_without_allocations()
            if may_leave or path == "/reshaper"
            else 0
        )

    def _delete_providers_with_generated_uuids(
        self, request: Request, ours: Reply, theirs: Reply
    ) -> tuple[Reply, Reply]:
        made = [reply.headers.get("location", "") for reply in (ours, theirs)]
        if request.method != "POST" or not all(made) or made[0] == made[1]:
            return ours, theirs
        for side, location in zip((self._ours, self._theirs), made, strict=True):
            path = location.removeprefix("http://placement")
            side.send_request(Request("DELETE", path, PEER_LATEST))
        return _hide_created_uuid(ours, made[0]), _hide_created_uuid(theirs, made[1])

    def _clear_both_sides(self) -> None:
        clear_service_state(self._ours)
        clear_service_state(self._theirs)


def _hide_created_uuid(reply: Reply, location: str) -> Reply:
    uuid = location.rpartition("/")[2]
    headers = {name: value.replace(uuid, "made") for name, value in reply.headers.items()}
    return replace(reply, headers=headers, body=reply.body.replace(uuid.encode(), b"made"))
