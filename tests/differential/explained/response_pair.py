# SPDX-License-Identifier: Apache-2.0
"""A request with the replies of both sides."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from tests.differential.cloud import read_cloud
from tests.differential.differences import sort_keys_and_lists
from tests.differential.exchange import Reply, Request
from tests.differential.oracle import (
    Candidates,
    build_expected_summaries,
    find_expected_candidates,
    parse_candidates,
    parse_candidates_query,
)
from tests.differential.sides import Side
from tests.support.clouds import Cloud


@dataclass(frozen=True)
class ResponsePair:
    """A request, both replies, and both sides for further requests.

    ``loaded_cloud`` is the cloud, or None if it must be read first.
    """

    request: Request
    ours: Reply
    theirs: Reply
    our_side: Side
    their_side: Side
    loaded_cloud: Cloud | None = None

    @cached_property
    def expected_candidates(self) -> Candidates:
        return find_expected_candidates(
            self.cloud, self.request, parse_candidates_query(self.request)
        )

    @cached_property
    def is_our_response_valid(self) -> bool:
        return (
            unquote(self.request.path) == "/allocation_candidates"
            and self.ours.status == 200
            and self.is_valid_page_of_candidates(self.ours)
        )

    def is_valid_page_of_candidates(self, reply: Reply) -> bool:
        belonging = self.list_summaries_of(parse_candidates(reply.document), mapped=True)
        return (
            self.has_expected_candidates(reply)
            and sort_keys_and_lists(reply.document["provider_summaries"]) == belonging
        )

    def has_expected_candidates(self, reply: Reply) -> bool:
        limit = parse_candidates_query(self.request).limit
        every = self.expected_candidates.total()
        differences = parse_candidates(reply.document)
        return differences <= self.expected_candidates and differences.total() == (
            every if limit is None else min(limit, every)
        )

    def list_summaries_of(self, candidates: Candidates, *, mapped: bool = False) -> dict[str, Any]:
        query = parse_candidates_query(self.request)
        return sort_keys_and_lists(
            build_expected_summaries(self.cloud, self.request, query, candidates, mapped=mapped)
        )

    @property
    def is_rejected_by_both(self) -> bool:
        return self.ours.status == self.theirs.status >= 400

    @cached_property
    def cloud(self) -> Cloud:
        return self.loaded_cloud or read_cloud(self.our_side)
