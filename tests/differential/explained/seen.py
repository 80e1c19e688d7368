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
        """Return the candidates that a naive search of the cloud finds, whatever the limit."""
        return judged(self.cloud, self.request, asked(self.request))

    @cached_property
    def is_right(self) -> bool:
        """Return whether we tell candidates, and just what a naive search finds."""
        return (
            unquote(self.request.path) == "/allocation_candidates"
            and self.ours.status == 200
            and self.holds(self.ours)
        )

    def holds(self, reply: Reply) -> bool:
        """Return whether a reply tells right candidates, all up to the limit, and no others.

        Its summaries have to be those that belong to the candidates told.
        """
        belonging = self.belonging(told(reply.document), mapped=True)
        return self.fits(reply) and normal(reply.document["provider_summaries"]) == belonging

    def fits(self, reply: Reply) -> bool:
        """Return whether a reply tells right candidates, all up to the limit."""
        limit = asked(self.request).limit
        every = self.right.total()
        found = told(reply.document)
        return found <= self.right and found.total() == (
            every if limit is None else min(limit, every)
        )

    def belonging(self, candidates: Candidates, *, mapped: bool = False) -> dict[str, Any]:
        """Return the summaries that have to go with candidates, lists in order.

        ``mapped``: also of the providers that only mappings name, for nothing is asked of them.
        """
        query = asked(self.request)
        return normal(summaries(self.cloud, self.request, query, candidates, mapped=mapped))

    @property
    def refused(self) -> bool:
        """Return whether both refuse, with the same status."""
        return self.ours.status == self.theirs.status >= 400

    @cached_property
    def cloud(self) -> Cloud:
        """Return the cloud that our side shows now."""
        return self.known or cloud_of(self.our_side)


@dataclass(frozen=True)
class Explanation:
    """``tells`` returns which of the aspects that differ are explained by it."""

    name: str
    reason: str
    tells: Callable[[Seen, Differences], set[str]]


def told_elsewhere(_seen: Seen, _found: Differences) -> set[str]:
    """Claim nothing: of what :mod:`tests.differential.duel` finds out and counts itself."""
    return set()
