# SPDX-License-Identifier: Apache-2.0
"""What an explanation looks at, and what it is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from tests.differential.cloud import cloud_of
from tests.differential.compare import Differences, normal
from tests.differential.exchange import Reply, Request
from tests.differential.oracle import Candidates, asked, judged, summaries, told
from tests.differential.sides import Side
from tests.support.clouds import Cloud


@dataclass(frozen=True)
class Seen:
    """A request, both replies, and both sides, to ask further.

    ``known`` is the cloud where it is known already.
    """

    request: Request
    ours: Reply
    theirs: Reply
    our_side: Side
    their_side: Side
    known: Cloud | None = None

    @cached_property
    def right(self) -> Candidates:
        return judged(self.cloud, self.request, asked(self.request))

    @cached_property
    def is_right(self) -> bool:
        return (
            unquote(self.request.path) == "/allocation_candidates"
            and self.ours.status == 200
            and self.holds(self.ours)
        )

    def holds(self, reply: Reply) -> bool:
        belonging = self.belonging(told(reply.document), mapped=True)
        return self.fits(reply) and normal(reply.document["provider_summaries"]) == belonging

    def fits(self, reply: Reply) -> bool:
        limit = asked(self.request).limit
        every = self.right.total()
        found = told(reply.document)
        return found <= self.right and found.total() == (
            every if limit is None else min(limit, every)
        )

    def belonging(self, candidates: Candidates, *, mapped: bool = False) -> dict[str, Any]:
        query = asked(self.request)
        return normal(summaries(self.cloud, self.request, query, candidates, mapped=mapped))

    @property
    def refused(self) -> bool:
        return self.ours.status == self.theirs.status >= 400

    @cached_property
    def cloud(self) -> Cloud:
        return self.known or cloud_of(self.our_side)


@dataclass(frozen=True)
class Explanation:
    """``tells`` returns which of the aspects that differ are explained by it."""

    name: str
    reason: str
    tells: Callable[[Seen, Differences], set[str]]


def told_elsewhere(_seen: Seen, _found: Differences) -> set[str]:
    return set()
