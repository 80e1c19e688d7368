# SPDX-License-Identifier: Apache-2.0
"""Whether an answer is right: held against all that the peer says there is."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import orjson
from both_servers import Request, Server, WrongAnswer

Answer = Mapping[str, Any]
#: Holds an answer of the server named against the peer's; returns how many candidates it has, if it
#: has any, and raises :class:`WrongAnswer`.
Check = Callable[[str, Request, bytes], int | None]


class Expected:
    """The peer's answer without a limit, against which others are held."""

    def __init__(self, question: str, body: bytes) -> None:
        self._question = question
        self._whole: Answer = orjson.loads(body)

    @cached_property
    def _allowed(self) -> frozenset[bytes]:
        return frozenset(_canonical(request) for request in self._whole["allocation_requests"])

    @cached_property
    def _trees(self) -> Mapping[str, dict[str, Any]]:
        """Summaries by uuid, by the uuid of the root."""
        trees: dict[str, dict[str, Any]] = {}
        for uuid, summary in self._whole["provider_summaries"].items():
            trees.setdefault(summary["root_provider_uuid"], {})[uuid] = _plain(summary)
        return trees

    def check(self, who: str, body: bytes, limit: int | None) -> int:
        """Return how many candidates the answer ``body`` has.

        Raises :class:`WrongAnswer` unless they are as many as asked for, each once, each among
        those that there are, with the very summaries of all providers of their trees.
        """
        answer: Answer = orjson.loads(body)
        where = f"{who}, {self._question}"
        found = [_canonical(request) for request in answer["allocation_requests"]]
        wanted = len(self._allowed) if limit is None else min(limit, len(self._allowed))
        if len(found) != wanted or len(set(found)) != wanted:
            shown = f"{len(found)} candidates, {len(set(found))} distinct, {wanted} wanted"
            raise WrongAnswer(f"{where}: {shown}")
        if strange := set(found) - self._allowed:
            raise WrongAnswer(f"{where}: no candidate of the peer: {sorted(strange)[:3]}")
        self._check_summaries(where, answer)
        return len(found)

    def _check_summaries(self, where: str, answer: Answer) -> None:
        summaries = answer["provider_summaries"]
        used = {uuid for one in answer["allocation_requests"] for uuid in one["allocations"]}
        if missing := used - summaries.keys():
            raise WrongAnswer(f"{where}: no summaries of {sorted(missing)[:3]}")
        roots = {summaries[uuid]["root_provider_uuid"] for uuid in used}
        expected = {
            uuid: summary for root in roots for uuid, summary in self._trees.get(root, {}).items()
        }
        if summaries.keys() != expected.keys():
            differing = sorted(summaries.keys() ^ expected.keys())
            raise WrongAnswer(f"{where}: summaries are not those of the trees: {differing[:3]}")
        for uuid, summary in summaries.items():
            if _plain(summary) != expected[uuid]:
                shown = f"  {summary}\nbut\n  {expected[uuid]}"
                raise WrongAnswer(f"{where}: summary of {uuid}:\n{shown}")


class Same:
    """What the peer answers to each request, with which other answers must agree."""

    def __init__(self, peer: Server) -> None:
        self._peer = peer
        self._known: dict[tuple[str, str], Any] = {}

    def check(self, who: str, request: Request, body: bytes) -> None:
        """Raise :class:`WrongAnswer` where ``body`` says anything else."""
        asked = (request.path, request.version)
        if asked not in self._known:
            self._known[asked] = comparable(self._peer.answer(request))
        found, expected = comparable(body), self._known[asked]
        if found != expected:
            shown = f"  {str(found)[:500]}\nbut\n  {str(expected)[:500]}"
            raise WrongAnswer(f"{who}, {request.path}:\n{shown}")


def comparable(body: bytes) -> Any:
    """Return the document of an answer: equal ones compare whatever the order of their parts.

    Links begin with the prefix under which a service is mounted, which is left out.
    """
    return in_order(orjson.loads(body.replace(b'"/placement/', b'"/')))


def in_order(value: Any) -> Any:
    """Return a JSON value whose lists and objects compare whatever their order."""
    if isinstance(value, dict):
        return {key: in_order(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted((in_order(one) for one in value), key=_as_bytes)
    return value


def _as_bytes(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _canonical(request: Mapping[str, Any]) -> bytes:
    """Return an allocation request as bytes that compare whatever the order of its parts."""
    mappings = {group: sorted(uuids) for group, uuids in request.get("mappings", {}).items()}
    return orjson.dumps({**request, "mappings": mappings}, option=orjson.OPT_SORT_KEYS)


def _plain(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary whose traits compare whatever their order."""
    return {**summary, "traits": sorted(summary["traits"])}
