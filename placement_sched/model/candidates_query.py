# SPDX-License-Identifier: Apache-2.0
"""Queries for allocation candidates and providers, and their results."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True)
class TraitTerms:
    """A condition on the traits of a provider.

    The provider must have a trait of each set in ``required``, and none in ``forbidden``.
    """

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Return all required and forbidden traits."""
        return self.forbidden.union(*self.required)


@dataclass(frozen=True, slots=True)
class AggregateTerms:
    """A condition on the aggregates of a provider.

    The provider must be in at least 1 aggregate of each set in ``member_of``, and in no aggregate
    of ``forbidden``. Uuids are in lower case with hyphens.
    """

    member_of: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    @property
    def uuids(self) -> frozenset[str]:
        """Return the uuids of all required and forbidden aggregates."""
        return self.forbidden.union(*self.member_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestGroup:
    """A request group: resources, and conditions on their providers.

    ``resources`` has classes and amounts. Only providers in the tree of the provider ``in_tree``
    serve the group. A single provider serves a group with a suffix.
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
        """Return whether the query has 1 group and no ``same_subtree``."""
        return len(self.groups) == 1 and not self.same_subtrees

    @property
    def isolates(self) -> bool:
        """Return whether each suffixed group needs a provider of its own."""
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


#: JSON texts of a provider summary: resources, traits, and the uuids of its parent and root.
RenderedSummary = tuple[bytes, bytes, bytes]


class _Provider(NamedTuple):
    id: int
    uuid: str
    generation: int
    root_uuid: str
    parent_uuid: str | None


class CandidateProvider(_Provider):
    """A provider in a search result, with the id of its database row."""

    #: The cached JSON of the summary in the newest microversion, None before its first use.
    summary: RenderedSummary | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """An allocation request without the uuids of its providers.

    Thousands of allocation requests may share a layout. ``amounts`` has each provider's amounts by
    class (empty if its group requests only traits). ``mappings`` maps the suffix of each group to
    the indexes of its providers in ``amounts``.
    """

    amounts: tuple[Mapping[str, int], ...]
    mappings: Mapping[str, tuple[int, ...]]


class AllocationRequest(NamedTuple):
    """An allocation request: a layout, and the uuids of its providers."""

    layout: Layout
    uuids: tuple[str, ...]
    root_uuid: str

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], root_uuid: str = "") -> Self:
        """Read an allocation request from the JSON object of :meth:`as_json`."""
        mappings = stored.get("mappings") or {}
        allocations = stored.get("allocations") or {}
        amounts = {uuid: part["resources"] for uuid, part in allocations.items()}
        for uuid in chain.from_iterable(mappings.values()):
            amounts.setdefault(uuid, {})
        uuids = tuple(amounts)
        indexes = {
            suffix: tuple(map(uuids.index, its_uuids)) for suffix, its_uuids in mappings.items()
        }
        return cls(Layout(tuple(amounts.values()), indexes), uuids, root_uuid)

    @property
    def allocations(self) -> dict[str, Mapping[str, int]]:
        """Map the uuid of each provider to its amounts by resource class."""
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
    """The result of a search, ``limited`` if there may be more candidates."""

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


#: The uuid of a provider and the name of a resource class.
InventoryName = tuple[str, str]


def iterate_amounts(candidate: AllocationRequest | None) -> Iterator[tuple[InventoryName, int]]:
    """Yield each inventory that an allocation request uses, with the amount."""
    for uuid, amounts in candidate.allocations.items() if candidate else ():
        for name, amount in amounts.items():
            yield (uuid, name), amount


def find_lacking_class(
    candidates: Iterable[AllocationRequest],
    free: Mapping[InventoryName, int],
    consumed: Collection[InventoryName],
) -> str:
    """Return the first resource class that all candidates lack, or "".

    ``free`` are the free amounts of the ``consumed`` inventories. Other inventories suffice.
    """
    lacking = [
        {
            inventory[1]
            for inventory, amount in iterate_amounts(candidate)
            if inventory in consumed and free[inventory] < amount
        }
        for candidate in candidates
    ]
    return min(set.intersection(*lacking), default="") if lacking else ""
