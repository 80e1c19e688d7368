# SPDX-License-Identifier: Apache-2.0
"""Values for queries of allocation candidates and providers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True)
class TraitTerms:
    """A condition on the traits of a provider.

    The provider must have any trait of each set in ``required``, and no trait in ``forbidden``.
    """

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Return every trait in the condition."""
        return self.forbidden.union(*self.required)


@dataclass(frozen=True, slots=True)
class AggregateTerms:
    """A condition on the aggregates of a provider.

    The provider must be in any aggregate of each set in ``member_of``, and in no aggregate of
    ``forbidden``.

    Uuids are in lower case with hyphens.
    """

    member_of: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    @property
    def uuids(self) -> frozenset[str]:
        """Return every aggregate in the condition."""
        return self.forbidden.union(*self.member_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestGroup:
    """A request group: amounts by class, traits, aggregates and a tree.

    Several providers may serve the group without suffix. A single provider serves a suffixed group.
    """

    suffix: str = ""
    resources: tuple[tuple[str, int], ...] = ()
    traits: TraitTerms = TraitTerms()
    aggregates: AggregateTerms = AggregateTerms()
    in_tree: str | None = None

    def as_parameters(self) -> list[tuple[str, str]]:
        """Return the group as query parameters of the Placement API."""
        amounts = ",".join(f"{name}:{amount}" for name, amount in sorted(self.resources))
        parameters = [("resources", amounts)] if amounts else []
        single_traits = sorted(
            next(iter(names)) for names in self.traits.required if len(names) == 1
        )
        single_traits += [f"!{name}" for name in sorted(self.traits.forbidden)]
        if single_traits:
            parameters.append(("required", ",".join(single_traits)))
        parameters += [
            ("required", f"in:{','.join(sorted(any_of))}")
            for any_of in self.traits.required
            if len(any_of) != 1
        ]
        parameters += [
            ("member_of", f"in:{','.join(sorted(any_of))}") for any_of in self.aggregates.member_of
        ]
        if self.aggregates.forbidden:
            parameters.append(("member_of", f"!in:{','.join(sorted(self.aggregates.forbidden))}"))
        if self.in_tree:
            parameters.append(("in_tree", self.in_tree))
        return [(f"{key}{self.suffix}", value) for key, value in parameters]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesQuery:
    """A query for allocation candidates (Placement API reference)."""

    groups: tuple[RequestGroup, ...]
    group_policy: str | None = None
    root: TraitTerms = TraitTerms()
    same_subtrees: tuple[tuple[str, ...], ...] = ()
    limit: int | None = None

    @property
    def group(self) -> RequestGroup | None:
        """Return the group without suffix, or None if every group has a suffix."""
        return next((group for group in self.groups if not group.suffix), None)

    @property
    def is_plain(self) -> bool:
        """Return whether there is a single group, without ``same_subtree``."""
        return len(self.groups) == 1 and not self.same_subtrees

    @property
    def isolates(self) -> bool:
        """Return whether suffixed groups need different providers."""
        return self.group_policy == "isolate"

    def as_querystring(self) -> str:
        """Return the query string, percent-encoded, with sorted parameters."""
        pairs = [pair for group in self.groups for pair in group.as_parameters()]
        if self.group_policy is not None:
            pairs.append(("group_policy", self.group_policy))
        root = RequestGroup(suffix="", traits=self.root).as_parameters()
        pairs += [(f"root_{key}", value) for key, value in root]
        pairs += [("same_subtree", ",".join(suffixes)) for suffixes in self.same_subtrees]
        if self.limit is not None:
            pairs.append(("limit", str(self.limit)))
        return urlencode(sorted(pairs))


#: The JSON of a provider summary: resources, traits, and the place in the tree.
RenderedSummary = tuple[bytes, bytes, bytes]


class _Provider(NamedTuple):
    id: int
    uuid: str
    generation: int
    root_uuid: str
    parent_uuid: str | None


class CandidateProvider(_Provider):
    """A provider in a search result, with its row's id and generation."""

    #: The summary in the newest microversion, once it was rendered.
    summary: RenderedSummary | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """The amounts and request groups of an allocation request, by index.

    A result may have thousands of allocation requests, which differ only in their providers, so
    that few layouts are enough. An index is a position in the list of an allocation request's
    providers. ``amounts`` has the amounts by class at each index (empty if a group requests only
    traits), and ``mappings`` the indexes by the suffix of the group.
    """

    amounts: tuple[Mapping[str, int], ...]
    mappings: Mapping[str, tuple[int, ...]]


class AllocationRequest(NamedTuple):
    """An allocation request: a layout, and the provider uuid at each index."""

    layout: Layout
    uuids: tuple[str, ...]
    root_uuid: str

    @property
    def allocations(self) -> dict[str, Mapping[str, int]]:
        """Map each provider uuid to its amounts by class."""
        pairs = zip(self.uuids, self.layout.amounts, strict=True)
        return {uuid: amounts for uuid, amounts in pairs if amounts}

    @property
    def mappings(self) -> dict[str, tuple[str, ...]]:
        """Map the suffix of each group to the uuids of its providers."""
        uuids = self.uuids
        return {
            suffix: tuple(uuids[index] for index in indexes)
            for suffix, indexes in self.layout.mappings.items()
        }

    def as_json(self) -> dict[str, object]:
        """Return the JSON object of an allocation request since microversion 1.34."""
        return {
            "allocations": {
                uuid: {"resources": dict(amounts)} for uuid, amounts in self.allocations.items()
            },
            "mappings": {suffix: list(uuids) for suffix, uuids in self.mappings.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The result of a search, possibly empty.

    ``limited`` means that the limit was reached, so that there may be more candidates.
    """

    requests: tuple[AllocationRequest, ...] = ()
    providers: tuple[CandidateProvider, ...] = ()
    limited: bool = False


def merge_results(results: Sequence[Candidates]) -> Candidates:
    """Merge search results in order, with each provider only once."""
    if len(results) == 1:
        return results[0]
    providers = {provider.id: provider for result in results for provider in result.providers}
    return Candidates(
        requests=tuple(request for result in results for request in result.requests),
        providers=tuple(providers.values()),
        limited=any(result.limited for result in results),
    )
