# SPDX-License-Identifier: Apache-2.0
"""Checks of responses against the peer's responses."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import orjson
from harness import WrongResponse

Response = Mapping[str, Any]


class ExpectedCandidates:
    """The peer's response to a candidates query without a limit."""

    def __init__(self, name: str, body: bytes) -> None:
        self._name = name
        self._whole: Response = orjson.loads(body)

    @cached_property
    def _allowed(self) -> frozenset[bytes]:
        return frozenset(_canonical(request) for request in self._whole["allocation_requests"])

    @cached_property
    def _trees(self) -> Mapping[str, dict[str, Any]]:
        """Summaries by uuid, by the uuid of the root."""
        trees: dict[str, dict[str, Any]] = {}
        for uuid, summary in self._whole["provider_summaries"].items():
            trees.setdefault(summary["root_provider_uuid"], {})[uuid] = sort_lists(summary)
        return trees

    def check(self, server: str, body: bytes, limit: int | None) -> int:
        """Return the number of candidates of a response to the query with a limit.

        Raises :class:`WrongResponse` unless it has the right number of candidates, each once and
        each a candidate of the peer, and the summaries of all providers of their trees.
        """
        response: Response = orjson.loads(body)
        place = f"{server}, {self._name}"
        candidates = [_canonical(request) for request in response["allocation_requests"]]
        number = len(self._allowed) if limit is None else min(limit, len(self._allowed))
        if len(candidates) != number or len(set(candidates)) != number:
            text = f"{len(candidates)} candidates, {len(set(candidates))} distinct, not {number}"
            raise WrongResponse(f"{place}: {text}")
        if unknown := set(candidates) - self._allowed:
            raise WrongResponse(f"{place}: no candidate of the peer: {sorted(unknown)[:3]}")
        self._check_summaries(place, response)
        return number

    def _check_summaries(self, place: str, response: Response) -> None:
        summaries = response["provider_summaries"]
        used = {uuid for each in response["allocation_requests"] for uuid in each["allocations"]}
        if missing := used - summaries.keys():
            raise WrongResponse(f"{place}: no summaries of {sorted(missing)[:3]}")
        roots = {summaries[uuid]["root_provider_uuid"] for uuid in used}
        expected = {
            uuid: summary for root in roots for uuid, summary in self._trees.get(root, {}).items()
        }
        if summaries.keys() != expected.keys():
            differing = sorted(summaries.keys() ^ expected.keys())
            raise WrongResponse(f"{place}: summaries are not those of the trees: {differing[:3]}")
        for uuid, summary in summaries.items():
            require_equal(f"{place}: summary of {uuid}", summary, expected[uuid])


def require_equal(place: str, value: Any, expected: Any) -> None:
    """Raise :class:`WrongResponse` if JSON values differ by more than the order of lists."""
    if sort_lists(value) != sort_lists(expected):
        raise WrongResponse(f"{place}:\n  {str(value)[:500]}\nbut\n  {str(expected)[:500]}")


def read_response(body: bytes) -> Any:
    """Return the document of a response, with links that have no prefix."""
    return orjson.loads(body.replace(b'"/placement/', b'"/'))


def sort_lists(value: Any) -> Any:
    """Return a JSON value with its lists sorted."""
    if isinstance(value, dict):
        return {key: sort_lists(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((sort_lists(each) for each in value), key=_encode)
    return value


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _canonical(request: Response) -> bytes:
    """Return an allocation request as bytes that do not depend on the order of its parts."""
    mappings = {group: sorted(uuids) for group, uuids in request.get("mappings", {}).items()}
    return _encode({**request, "mappings": mappings})
