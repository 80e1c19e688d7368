"""Queries for allocation candidates and lists of providers, as frozen values."""

from dataclasses import dataclass
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
