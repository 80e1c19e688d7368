"""Queries for allocation candidates and lists of providers, as frozen values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True)
class TraitTerms:
    """A condition on traits: one of every set in ``required``, and none of ``forbidden``."""

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Return every trait named."""
        return self.forbidden.union(*self.required)


@dataclass(frozen=True, slots=True)
class AggregateTerms:
    """A condition on aggregates: one of every set in ``member_of``, none of ``forbidden``.

    Aggregates are named by uuid, in lower case with hyphens.
    """

    member_of: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    @property
    def uuids(self) -> frozenset[str]:
        """Return every aggregate named."""
        return self.forbidden.union(*self.member_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestGroup:
    """One request group: amounts by class, traits, aggregates, a tree.

    The group without suffix may be served by several providers, a suffixed one by a single one.
    """

    suffix: str = ""
    resources: tuple[tuple[str, int], ...] = ()
    traits: TraitTerms = TraitTerms()
    aggregates: AggregateTerms = AggregateTerms()
    in_tree: str | None = None

    def parameters(self) -> list[tuple[str, str]]:
        """Return the query parameters that ask for this group, of the Placement API."""
        amounts = ",".join(f"{name}:{amount}" for name, amount in sorted(self.resources))
        found = [("resources", amounts)] if amounts else []
        plain = sorted(next(iter(one)) for one in self.traits.required if len(one) == 1)
        plain += [f"!{name}" for name in sorted(self.traits.forbidden)]
        if plain:
            found.append(("required", ",".join(plain)))
        found += [
            ("required", f"in:{','.join(sorted(any_of))}")
            for any_of in self.traits.required
            if len(any_of) != 1
        ]
        found += [
            ("member_of", f"in:{','.join(sorted(any_of))}") for any_of in self.aggregates.member_of
        ]
        if self.aggregates.forbidden:
            found.append(("member_of", f"!in:{','.join(sorted(self.aggregates.forbidden))}"))
        if self.in_tree:
            found.append(("in_tree", self.in_tree))
        return [(f"{key}{self.suffix}", value) for key, value in found]


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
        """Return the group without suffix, or None where every group has one."""
        return next((group for group in self.groups if not group.suffix), None)

    @property
    def is_plain(self) -> bool:
        """Return whether there is one group, tied to no other."""
        return len(self.groups) == 1 and not self.same_subtrees

    @property
    def isolates(self) -> bool:
        """Return whether no two groups with a suffix may be served by the same provider."""
        return self.group_policy == "isolate"

    def querystring(self) -> str:
        """Return the question as a query string: percent-encoded, parameters sorted."""
        pairs = [pair for group in self.groups for pair in group.parameters()]
        if self.group_policy is not None:
            pairs.append(("group_policy", self.group_policy))
        root = RequestGroup(suffix="", traits=self.root).parameters()
        pairs += [(f"root_{key}", value) for key, value in root]
        pairs += [("same_subtree", ",".join(suffixes)) for suffixes in self.same_subtrees]
        if self.limit is not None:
            pairs.append(("limit", str(self.limit)))
        return urlencode(sorted(pairs))


class CandidateProvider(NamedTuple):
    """A provider as a search finds it; ``id`` and ``generation`` are the table's."""

    id: int
    uuid: str
    generation: int
    root_uuid: str
    parent_uuid: str | None


@dataclass(frozen=True, slots=True)
class Layout:
    """What each provider of a request gives, and which group it serves: by place, not by name.

    The requests of one answer come in thousands and differ by their providers; their layouts are
    few. ``amounts`` has the amount by class of each place (none where a group asks only for
    traits), ``mappings`` the places by suffix.
    """

    amounts: tuple[Mapping[str, int], ...]
    mappings: Mapping[str, tuple[int, ...]]


class AllocationRequest(NamedTuple):
    """One way to serve a request: the uuid of the provider in each place of the layout."""

    layout: Layout
    uuids: tuple[str, ...]
    root_uuid: str

    @property
    def allocations(self) -> dict[str, Mapping[str, int]]:
        """Return the amounts by class by provider uuid."""
        gives = zip(self.uuids, self.layout.amounts, strict=True)
        return {uuid: amounts for uuid, amounts in gives if amounts}

    @property
    def mappings(self) -> dict[str, tuple[str, ...]]:
        """Return the uuids of the providers of each group, by its suffix."""
        uuids = self.uuids
        return {
            suffix: tuple(uuids[place] for place in places)
            for suffix, places in self.layout.mappings.items()
        }

    def as_json(self) -> dict[str, object]:
        """Return the form that ``PUT /allocations`` takes from microversion 1.34 on."""
        return {
            "allocations": {
                uuid: {"resources": dict(amounts)} for uuid, amounts in self.allocations.items()
            },
            "mappings": {suffix: list(uuids) for suffix, uuids in self.mappings.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The answer of a search; empty is an answer.

    ``limited``: there are as many as the limit allows, and perhaps there were more. ``trees`` are
    all providers of the trees that its providers are of (None where that is not known).
    """

    requests: tuple[AllocationRequest, ...] = ()
    providers: tuple[CandidateProvider, ...] = ()
    limited: bool = False
    trees: tuple[CandidateProvider, ...] | None = None


def together(several: Sequence[Candidates]) -> Candidates:
    """Return what several searches found, each provider once, in their order."""
    if len(several) == 1:
        return several[0]
    providers = {provider.id: provider for one in several for provider in one.providers}
    return Candidates(
        requests=tuple(request for one in several for request in one.requests),
        providers=tuple(providers.values()),
        limited=any(one.limited for one in several),
    )
