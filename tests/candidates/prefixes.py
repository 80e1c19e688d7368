# SPDX-License-Identifier: Apache-2.0
"""Queries with a part of their constraints, to check explanations.

They do not use the code of the explanation, so that its order and names are checked too.
"""

from collections.abc import Iterator
from dataclasses import replace

from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)

#: A constraint in an explanation: ``(kind, detail)``.
ConstraintName = tuple[str, str]


def _format_trait_term(any_of: frozenset[str]) -> str:
    return next(iter(any_of)) if len(any_of) == 1 else f"in:{','.join(sorted(any_of))}"


def _split_group_by_constraint(
    group: RequestGroup,
) -> Iterator[tuple[ConstraintName, RequestGroup]]:
    """Yield the name of each constraint of a group, and a group with this constraint only."""
    for amount in group.resources:
        yield ("resources", f"{amount[0]}:{amount[1]}"), RequestGroup(resources=(amount,))
    for any_of in group.traits.required:
        yield ("required", _format_trait_term(any_of)), RequestGroup(traits=TraitTerms((any_of,)))
    for name in sorted(group.traits.forbidden):
        yield ("required", f"!{name}"), RequestGroup(traits=TraitTerms((), frozenset({name})))
    for uuids in group.aggregates.member_of:
        detail = f"in:{','.join(sorted(uuids))}"
        yield ("member_of", detail), RequestGroup(aggregates=AggregateTerms((uuids,)))
    if group.aggregates.forbidden:
        detail = f"!in:{','.join(sorted(group.aggregates.forbidden))}"
        terms = AggregateTerms((), group.aggregates.forbidden)
        yield ("member_of", detail), RequestGroup(aggregates=terms)
    if group.in_tree:
        yield ("in_tree", group.in_tree), RequestGroup(in_tree=group.in_tree)


def _join_constraints(suffix: str, parts: list[RequestGroup]) -> RequestGroup:
    return RequestGroup(
        suffix=suffix,
        resources=sum((part.resources for part in parts), ()),
        traits=TraitTerms(
            sum((part.traits.required for part in parts), ()),
            frozenset().union(*(part.traits.forbidden for part in parts)),
        ),
        aggregates=AggregateTerms(
            sum((part.aggregates.member_of for part in parts), ()),
            frozenset().union(*(part.aggregates.forbidden for part in parts)),
        ),
        in_tree=next((part.in_tree for part in parts if part.in_tree), None),
    )


def _list_all_constraints(
    query: CandidatesQuery,
) -> list[tuple[ConstraintName, str | None, RequestGroup]]:
    """Return the name, the suffix of the group (None for the root) and the constraint itself."""
    parts: list[tuple[ConstraintName, str | None, RequestGroup]] = []
    for group in query.groups:
        tail = f" (group {group.suffix})" if group.suffix else ""
        parts += [
            ((kind, detail + tail), group.suffix, part)
            for (kind, detail), part in _split_group_by_constraint(group)
        ]
    root = RequestGroup(traits=query.root)
    parts += [
        (("root_required", detail), None, part)
        for (_, detail), part in _split_group_by_constraint(root)
    ]
    return parts


def _build_partial_query(
    query: CandidatesQuery, constraints: list[tuple[ConstraintName, str | None, RequestGroup]]
):
    groups = tuple(
        _join_constraints(
            group.suffix, [part for _, suffix, part in constraints if suffix == group.suffix]
        )
        for group in query.groups
    )
    root = _join_constraints("", [part for _, suffix, part in constraints if suffix is None])
    return replace(query, groups=groups, root=root.traits)


def list_partial_queries(query: CandidatesQuery) -> list[tuple[ConstraintName, CandidatesQuery]]:
    """Return each constraint, and the query with all constraints up to this constraint."""
    parts = _list_all_constraints(query)
    return [
        (part[0], _build_partial_query(query, parts[: count + 1]))
        for count, part in enumerate(parts)
    ]


def build_relaxed_query(
    query: CandidatesQuery, dropped: tuple[ConstraintName, ...]
) -> CandidatesQuery:
    """Return the query without some constraints or rules."""
    constraints = [part for part in _list_all_constraints(query) if part[0] not in dropped]
    relaxed_query = _build_partial_query(query, constraints)
    if ("group_policy", "isolate") in dropped:
        relaxed_query = replace(relaxed_query, group_policy="none")
    subtrees = (
        suffixes
        for suffixes in query.same_subtrees
        if ("same_subtree", ",".join(suffixes)) not in dropped
    )
    return replace(relaxed_query, same_subtrees=tuple(subtrees))


def list_constraint_names(query: CandidatesQuery) -> list[ConstraintName]:
    """Return every constraint and rule of a query, without duplicates."""
    names = [name for name, _, _ in _list_all_constraints(query)]
    if query.isolates:
        names.append(("group_policy", "isolate"))
    names += [("same_subtree", ",".join(suffixes)) for suffixes in query.same_subtrees]
    return list(dict.fromkeys(names))
