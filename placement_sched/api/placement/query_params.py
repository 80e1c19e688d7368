# SPDX-License-Identifier: Apache-2.0
"""Parser of query strings of provider lists and allocation candidates.

Sources: Placement API reference, "List resource providers" and "List allocation candidates".
Placement documentation, "Granular Resource Requests". The specs on string suffixes,
``same_subtree`` and ``root_required``.
"""

import re
from collections.abc import Iterable, Sequence

from placement_sched.api.placement import microversions as mv
from placement_sched.api.routing import ApiCall
from placement_sched.api.versions import Version
from placement_sched.errors import BadValue, Invalid, TooComplex
from placement_sched.limits import MAX_CONDITIONS
from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.names import read_uuid
from placement_sched.model.provider import MAX_INT

# White space around a number is allowed, as in OpenStack placement, which calls Python's int().
# The separators \x1c to \x1f, which int() also allows, are rejected.
_SPACE = r"[^\S\x1c-\x1f]*"
_AMOUNT = re.compile(rf"{_SPACE}[+-]?[0-9]{{1,4000}}{_SPACE}")
_KEY = re.compile(r"^(?:resources|required|member_of|in_tree)(?P<suffix>[a-zA-Z0-9_-]*)$")
_LIMIT = re.compile("[1-9][0-9]*")
_ANY = "in:"
_NOT = "!"
_FAULT = "Invalid query string parameters"
_ANY_FORMAT = f"{_FAULT}: The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC'"


def parse_resources(text: str) -> dict[str, int]:
    """Parse ``VCPU:2,MEMORY_MB:1024`` into amounts by class.

    If a class is repeated, the last amount counts. An amount larger than any inventory becomes
    ``MAX_INT + 1``. Raises :class:`Invalid` for any other form.
    """
    amounts = {}
    for part in text.split(","):
        name, colon, value = part.partition(":")
        if not colon or ":" in value:
            quoted = part if text else "empty string"
            context = "" if part == text else f" This is a part of {text}"
            raise Invalid(
                "Badly formed resources parameter. Expected resources query string parameter in "
                f"form: ?resources=VCPU:2,MEMORY_MB:1024. Got: {quoted}.{context}"
            )
        if not _AMOUNT.fullmatch(value):
            raise Invalid(
                f"Requested resource {name} expected positive integer amount. Got: {value}."
            )
        amount = int(value)
        if amount < 1:
            raise Invalid(f"Requested resource {name} requires amount >= 1. Got: {amount}.")
        amounts[name] = min(amount, MAX_INT + 1)
    return amounts


def parse_traits(values: Sequence[str], version: Version, key: str = "required") -> TraitTerms:
    """Parse the values of ``required``.

    Version 1.22 added the form ``A,!B``, and 1.39 the form ``in:A,B`` and repetition. Before 1.39,
    the last value counts. Whether traits exist is not checked. ``key`` is the name of the
    parameter in errors. Raises :class:`Invalid` for any other form.
    """
    if not version.has(mv.ANY_TRAITS):
        values = values[-1:]
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        got = f"Got: {value} in '{key}'"
        if value.startswith(_ANY) and not version.has(mv.ANY_TRAITS):
            raise Invalid(f"{_ANY_FORMAT} only supported since microversion {mv.ANY_TRAITS}. {got}")
        names = _parse_trait_names(value, version, key)
        if value.startswith(_ANY):
            if any(name.startswith(_NOT) for name in names):
                raise Invalid(f"{_ANY_FORMAT} does not support forbidden traits. {got}")
            required.append(frozenset(names))
            continue
        for name in names:
            if not name.startswith(_NOT):
                required.append(frozenset({name}))
            elif version.has(mv.FORBIDDEN_TRAITS):
                # OpenStack placement ignores additional exclamation marks, too.
                forbidden.add(name.lstrip(_NOT))
            else:
                reason = f"Got: {value} (traits can be forbidden since 1.22)"
                raise _build_traits_error(key, version, value, reason)
    return TraitTerms(tuple(dict.fromkeys(required)), frozenset(forbidden))


def _parse_trait_names(value: str, version: Version, key: str) -> list[str]:
    names = [name.strip() for name in value.removeprefix(_ANY).split(",")]
    if not all(name.lstrip(_NOT) for name in names):
        raise _build_traits_error(key, version, value, f"Got an empty trait in: {value}")
    return names


def _build_traits_error(key: str, version: Version, value: str, reason: str) -> Invalid:
    any_of = _ANY if value.startswith(_ANY) else ""
    mark = _NOT if version.has(mv.FORBIDDEN_TRAITS) and not any_of else ""
    return Invalid(
        f"{_FAULT}: Expected '{key}' parameter value of the form: "
        f"{any_of}HW_CPU_X86_VMX,{mark}CUSTOM_MAGIC. {reason}"
    )


def parse_member_of(
    values: Sequence[str], version: Version, key: str = "member_of"
) -> AggregateTerms:
    """Parse the values of ``member_of``.

    A value is ``<uuid>`` or ``in:<uuid>,<uuid>``. Version 1.24 added repetition, and 1.32 the forms
    ``!<uuid>`` and ``!in:<uuid>,<uuid>``. ``key`` is the name of the parameter in errors. Raises
    :class:`Invalid` for any other form.
    """
    if len(values) > 1 and not version.has(mv.REPEATED_MEMBER_OF):
        raise Invalid(f"Multiple {key} parameters are not supported before 1.24")
    member_of: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        uuids = _parse_uuids(value.removeprefix(_NOT), key)
        if not value.startswith(_NOT):
            member_of.append(uuids)
        elif version.has(mv.FORBIDDEN_AGGREGATES):
            forbidden |= uuids
        else:
            raise Invalid(
                f"Forbidden {key} parameters are not supported in the specified microversion, "
                f"use 1.32 or later. Got: {value}"
            )
    return AggregateTerms(tuple(dict.fromkeys(member_of)), frozenset(forbidden))


def _parse_uuids(text: str, key: str) -> frozenset[str]:
    if "," in text and not text.startswith(_ANY):
        raise Invalid(
            f"Multiple values for '{key}' must be prefixed with the 'in:' or '!in:' keyword using "
            f"the valid microversion. Got: {text}"
        )
    uuids = set()
    for part in text.removeprefix(_ANY).split(","):
        uuid = read_uuid(part)
        if uuid is None:
            raise Invalid(
                f"{_FAULT}: Expected '{key}' parameter to contain valid UUID(s). Got: {part}"
            )
        uuids.add(uuid)
    return frozenset(uuids)


def parse_query(call: ApiCall) -> CandidatesQuery:
    """Build a candidates query from a query string that fits its schema.

    Raises :class:`Invalid`, naming the parameter, for malformed or contradictory values.
    """
    max_groups: int = call.services.settings.placement.max_request_groups
    # The order of the checks is OpenStack placement's, so that the same error is reported.
    root_traits = _parse_root_traits(call)
    # Repeated subtrees are dropped, since each subtree costs a comparison per combination.
    subtrees = dict.fromkeys(
        tuple(dict.fromkeys(suffix.strip() for suffix in text.split(",")))
        for text in call.list_values("same_subtree")
    )
    if any("" in subtree for subtree in subtrees):
        raise BadValue("Empty string (unsuffixed group) can not be specified in `same_subtree`")
    suffixes = dict.fromkeys(match["suffix"] for key, _ in call.query if (match := _KEY.match(key)))
    if len(suffixes) > max_groups:
        raise TooComplex(
            f"{_FAULT}: {len(suffixes)} request groups exceed [placement] max_request_groups "
            f"({max_groups})."
        )
    groups = tuple(_parse_group(call, suffix) for suffix in suffixes)
    all_traits = (root_traits, *(group.traits for group in groups))
    number = sum(len(traits.required) + len(traits.forbidden) for traits in all_traits)
    number += sum(len(group.aggregates.member_of) for group in groups)
    if number > MAX_CONDITIONS:
        raise TooComplex(
            f"{_FAULT}: {number} conditions on traits and aggregates exceed the limit of "
            f"{MAX_CONDITIONS}."
        )
    if not call.version.has(mv.SAME_SUBTREE):
        _check_resourceless(call, groups, set())
    _check_resources(call, groups)
    for subtree in subtrees:
        if unknown := sorted(set(subtree).difference(suffixes)):
            raise BadValue(
                f"Real suffixes should be specified in `same_subtree`: {unknown} not found in "
                f"{sorted(suffixes)}."
            )
    _check_resourceless(call, groups, {suffix for subtree in subtrees for suffix in subtree})
    _check_conflicts(groups)
    # As in OpenStack placement, the first value of both parameters counts. If another parameter
    # is repeated, its last value counts.
    policy, limit = (next(iter(call.list_values(name)), None) for name in ("group_policy", "limit"))
    if not policy and sum(1 for suffix in suffixes if suffix) > 1:
        raise Invalid(
            'The "group_policy" parameter is required when specifying more than one '
            '"resources{N}" parameter.'
        )
    if limit is not None and not _LIMIT.fullmatch(limit):
        raise Invalid(f"{_FAULT}: the first value of limit is not a positive whole number: {limit}")
    return CandidatesQuery(
        groups=groups,
        group_policy=policy if policy in {None, "isolate"} else "none",
        root=root_traits,
        same_subtrees=tuple(subtrees),
        limit=None if limit is None else min(int(limit[:12]), MAX_INT),
    )


def _parse_root_traits(call: ApiCall) -> TraitTerms:
    values = call.list_values("root_required")
    if len(values) > 1:
        raise Invalid(
            "Query parameter 'root_required' may be specified only once.",
            code="placement.query.duplicate_key",
        )
    if values and values[0].startswith(_ANY):
        raise Invalid(f"{_FAULT}: 'root_required' does not support any-traits. Got: {values[0]}")
    traits = parse_traits(values, call.version, "root_required")
    if conflicts := _find_conflicts(traits):
        raise BadValue(
            f"Conflicting required and forbidden traits found in root_required: {conflicts}"
        )
    return traits


def _parse_group(call: ApiCall, suffix: str) -> RequestGroup:
    # Every value must be well formed. The last value counts.
    amounts = [parse_resources(text) for text in call.list_values(f"resources{suffix}")]
    required, member_of, in_tree = f"required{suffix}", f"member_of{suffix}", f"in_tree{suffix}"
    traits = parse_traits(call.list_values(required), call.version, required)
    aggregates = parse_member_of(call.list_values(member_of), call.version, member_of)
    tree = None
    for text in call.list_values(in_tree):
        tree = read_uuid(text.strip())
        if tree is None:
            raise Invalid(
                f"{_FAULT}: Expected '{in_tree}' parameter to be a format of uuid. Got: {text}"
            )
    resources = tuple(amounts[-1].items()) if amounts else ()
    return RequestGroup(
        suffix=suffix, resources=resources, traits=traits, aggregates=aggregates, in_tree=tree
    )


def _check_resources(call: ApiCall, groups: Iterable[RequestGroup]) -> None:
    if any(group.resources for group in groups):
        return
    parameters = f"Got: {', '.join(sorted({key for key, _ in call.query})) or 'no parameters'}"
    if call.version.has(mv.SAME_SUBTREE):
        raise Invalid(
            f"There must be at least one resources or resources[$S] parameter. {parameters}",
            code="placement.query.missing_value",
        )
    raise Invalid(
        f"At least one request group (`resources` or `resources{{$S}}`) is required. {parameters}"
    )


def _check_resourceless(
    call: ApiCall, groups: Iterable[RequestGroup], in_subtrees: set[str]
) -> None:
    """Reject groups without resources, unless ``same_subtree`` lists them."""
    suffixes = [
        group.suffix for group in groups if not group.resources and group.suffix not in in_subtrees
    ]
    if suffixes and call.version.has(mv.SAME_SUBTREE):
        raise BadValue(
            "Resourceless suffixed group request should be specified in `same_subtree` query "
            f"param: bad group(s) - {suffixes}."
        )
    keys = {key for key, _ in call.query}
    for name, label in (("required", "traits"), ("member_of", "member_of"), ("in_tree", "in_tree")):
        if orphans := [f"{name}{suffix}" for suffix in suffixes if f"{name}{suffix}" in keys]:
            raise Invalid(
                f"All request groups must specify resources. All {label} parameters must be "
                "associated with resources. Found the following "
                f"orphaned {label} keys: {', '.join(orphans)}"
            )


def _check_conflicts(groups: Iterable[RequestGroup]) -> None:
    conflicts = [
        f"required{group.suffix}: ({traits})"
        for group in groups
        if (traits := _find_conflicts(group.traits))
    ]
    if conflicts:
        raise Invalid(
            "Conflicting required and forbidden traits found in the following traits keys: "
            + ", ".join(conflicts)
        )


def _find_conflicts(traits: TraitTerms) -> str:
    impossible = (any_of for any_of in traits.required if any_of <= traits.forbidden)
    return ", ".join(sorted(set().union(*impossible)))
