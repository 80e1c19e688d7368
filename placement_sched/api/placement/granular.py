"""The request groups of a GET /allocation_candidates query string.

Source: Placement documentation, "Granular Resource Requests", and the specs on string suffixes,
``same_subtree`` and ``root_required``.
"""

import re
from collections.abc import Collection, Iterable

from placement_sched.api.call import Call
from placement_sched.api.placement import microversions as mv
from placement_sched.api.placement.params import (
    normal_uuid,
    parse_member_of,
    parse_resources,
    parse_traits,
)
from placement_sched.errors import BadValue, Invalid, TooComplex
from placement_sched.model.inventory import MAX_INT
from placement_sched.model.query import CandidatesQuery, RequestGroup, TraitTerms

_KEY = re.compile(r"^(?P<name>resources|required|member_of|in_tree)(?P<suffix>[a-zA-Z0-9_-]*)$")
_LIMIT = re.compile("[1-9][0-9]*")


def query_of(call: Call) -> CandidatesQuery:
    """Return the question that a query string, already of its schema, asks.

    Raises :class:`Invalid` for what is malformed or contradicts itself, naming the parameter.
    """
    # Of several faults the one told is the one that OpenStack placement tells.
    root = _root(call)
    ties = tuple(_tie(text) for text in call.values("same_subtree"))
    suffixes = dict.fromkeys(match["suffix"] for key, _ in call.query if (match := _KEY.match(key)))
    _check_number(call, suffixes)
    groups = tuple(_group(call, suffix) for suffix in suffixes)
    if not call.version.has(mv.SAME_SUBTREE):
        _check_resourceless(call, groups, set())
    _check_resources(call, groups)
    for tie in ties:
        _check_known(tie, suffixes)
    _check_resourceless(call, groups, {suffix for tie in ties for suffix in tie})
    _check_conflicts(groups)
    # Of these two the first value counts, of all others the last: as in OpenStack placement.
    policy, limit = call.first("group_policy"), call.first("limit")
    if not policy and sum(1 for suffix in suffixes if suffix) > 1:
        raise Invalid(
            'The "group_policy" parameter is required when specifying more than one '
            '"resources{N}" parameter.'
        )
    if limit is not None and not _LIMIT.fullmatch(limit):
        raise Invalid(f"Invalid query string parameters: the first limit is no amount: {limit}")
    return CandidatesQuery(
        groups=groups,
        group_policy=policy if policy in {None, "isolate"} else "none",
        root=root,
        same_subtrees=ties,
        limit=None if limit is None else min(int(limit[:12]), MAX_INT),
    )


def _check_number(call: Call, suffixes: Collection[str]) -> None:
    most = call.services.settings.placement.max_request_groups
    if len(suffixes) > most:
        raise TooComplex(
            f"Invalid query string parameters: {len(suffixes)} request groups, where "
            f"[placement] max_request_groups allows {most}."
        )


def _group(call: Call, suffix: str) -> RequestGroup:
    # Each value has to be well formed, the last one counts.
    amounts = [parse_resources(text) for text in call.values(f"resources{suffix}")]
    return RequestGroup(
        suffix=suffix,
        resources=tuple(amounts[-1].items()) if amounts else (),
        traits=parse_traits(call.values(f"required{suffix}"), call.version, f"required{suffix}"),
        aggregates=parse_member_of(
            call.values(f"member_of{suffix}"), call.version, f"member_of{suffix}"
        ),
        in_tree=_in_tree(call, f"in_tree{suffix}"),
    )


def _in_tree(call: Call, key: str) -> str | None:
    uuid = None
    for text in call.values(key):
        try:
            uuid = normal_uuid(text.strip())
        except ValueError:
            raise Invalid(
                f"Invalid query string parameters: Expected '{key}' parameter to be a format of "
                f"uuid. Got: {text}"
            ) from None
    return uuid


def _root(call: Call) -> TraitTerms:
    values = call.values("root_required")
    if len(values) > 1:
        raise Invalid(
            "Query parameter 'root_required' may be specified only once.",
            code="placement.query.duplicate_key",
        )
    if values and values[0].startswith("in:"):
        raise Invalid(
            "Invalid query string parameters: 'root_required' takes no any-traits. "
            f"Got: {values[0]}"
        )
    terms = parse_traits(values, call.version, "root_required")
    if both := _both(terms):
        raise BadValue(
            f"Conflicting required and forbidden traits found in root_required: {', '.join(both)}"
        )
    return terms


def _tie(text: str) -> tuple[str, ...]:
    """Return the suffixes of the groups whose providers shall be of one subtree."""
    named = tuple(dict.fromkeys(suffix.strip() for suffix in text.split(",")))
    if "" in named:
        raise BadValue("Empty string (unsuffixed group) can not be specified in `same_subtree`")
    return named


def _check_resources(call: Call, groups: Iterable[RequestGroup]) -> None:
    if any(group.resources for group in groups):
        return
    given = f"Got: {', '.join(sorted({key for key, _ in call.query})) or 'no parameters'}"
    if call.version.has(mv.SAME_SUBTREE):
        raise Invalid(
            f"There must be at least one resources or resources[$S] parameter. {given}",
            code="placement.query.missing_value",
        )
    raise Invalid(
        "At least one request group (`resources` or `resources{$S}`) is required. " + given
    )


def _check_known(named: Iterable[str], suffixes: Iterable[str]) -> None:
    known = set(suffixes)
    if unknown := sorted(set(named) - known):
        raise BadValue(
            f"Real suffixes should be specified in `same_subtree`: {unknown} not found in "
            f"{sorted(known)}."
        )


def _check_resourceless(call: Call, groups: Iterable[RequestGroup], tied: set[str]) -> None:
    """Raise for a group without resources, unless a subtree ties it to others (from 1.36)."""
    bare = [group for group in groups if not group.resources and group.suffix not in tied]
    if not bare:
        return
    if call.version.has(mv.SAME_SUBTREE):
        raise BadValue(
            "Resourceless suffixed group request should be specified in `same_subtree` query "
            f"param: bad group(s) - {[group.suffix for group in bare]}."
        )
    keys = {key for key, _ in call.query}
    for name, words in (("required", "traits"), ("member_of", "member_of"), ("in_tree", "in_tree")):
        orphans = [f"{name}{group.suffix}" for group in bare if f"{name}{group.suffix}" in keys]
        if orphans:
            raise Invalid(
                f"All request groups must specify resources. All {words} parameters must be "
                "associated with resources. Found the following "
                f"orphaned {words} keys: {', '.join(orphans)}"
            )


def _check_conflicts(groups: Iterable[RequestGroup]) -> None:
    found = [
        f"required{group.suffix}: ({', '.join(both)})"
        for group in groups
        if (both := _both(group.traits))
    ]
    if found:
        raise Invalid(
            "Conflicting required and forbidden traits found in the following traits keys: "
            + ", ".join(found)
        )


def _both(terms: TraitTerms) -> list[str]:
    """Return the traits that are forbidden, and of which one is required."""
    return sorted(
        {name for any_of in terms.required if any_of <= terms.forbidden for name in any_of}
    )
