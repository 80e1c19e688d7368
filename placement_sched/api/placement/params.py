"""What query strings ask for: ``resources``, ``required``, ``member_of``, and request groups.

Sources: Placement API reference, the parameters of these names of "List resource providers" and
"List allocation candidates"; Placement documentation, "Granular Resource Requests"; the specs on
string suffixes, ``same_subtree`` and ``root_required``.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from placement_sched.api.call import Call
from placement_sched.api.placement import microversions as mv
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

# Around it Python's int(), and so OpenStack placement, takes white space, but no separators.
_SPACE = r"[^\S\x1c-\x1f]*"
_AMOUNT = re.compile(rf"{_SPACE}[+-]?[0-9]{{1,4000}}{_SPACE}")
_KEY = re.compile(r"^(?:resources|required|member_of|in_tree)(?P<suffix>[a-zA-Z0-9_-]*)$")
_LIMIT = re.compile("[1-9][0-9]*")
_ANY = "in:"
_NOT = "!"
#: The most characters of a query string whose question is remembered.
_REMEMBERED = 2000
_FAULT = "Invalid query string parameters"
_ANY_FORMAT = f"{_FAULT}: The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC'"


def parse_resources(text: str) -> dict[str, int]:
    """Return the amounts by class of ``VCPU:2,MEMORY_MB:1024``; of a repeated class the last.

    Amounts larger than any inventory come back as just too large. Raises :class:`Invalid`.
    """
    amounts = {}
    for part in text.split(","):
        name, colon, given = part.partition(":")
        if not colon or ":" in given:
            got = part if text else "empty string"
            of = "" if part == text else f" This is a part of {text}"
            raise Invalid(
                "Badly formed resources parameter. Expected resources query string parameter in "
                f"form: ?resources=VCPU:2,MEMORY_MB:1024. Got: {got}.{of}"
            )
        if not _AMOUNT.fullmatch(given):
            raise Invalid(
                f"Requested resource {name} expected positive integer amount. Got: {given}."
            )
        amount = int(given)
        if amount < 1:
            raise Invalid(f"Requested resource {name} requires amount >= 1. Got: {amount}.")
        amounts[name] = min(amount, MAX_INT + 1)
    return amounts


def parse_traits(values: Sequence[str], version: Version, key: str = "required") -> TraitTerms:
    """Return what the values of ``required`` ask for; ``key`` is the parameter's name in errors.

    ``A,!B`` from 1.22, ``in:A,B`` and repetition from 1.39; before, the last value counts.
    Whether the traits exist is not looked at. Raises :class:`Invalid`.
    """
    if not version.has(mv.ANY_TRAITS):
        values = values[-1:]
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        if value.startswith(_ANY):
            required.append(_any_of(value, version, key))
            continue
        for name in _trait_names(value, version, key):
            if not name.startswith(_NOT):
                required.append(frozenset({name}))
            elif version.has(mv.FORBIDDEN_TRAITS):
                # As in OpenStack placement, a mark too many forbids all the same.
                forbidden.add(name.lstrip(_NOT))
            else:
                reason = f"Got: {value} (traits can be forbidden since 1.22)"
                raise _bad_traits(key, version, value, reason)
    return TraitTerms(tuple(dict.fromkeys(required)), frozenset(forbidden))


def _any_of(value: str, version: Version, key: str) -> frozenset[str]:
    got = f"Got: {value} in '{key}'"
    if not version.has(mv.ANY_TRAITS):
        raise Invalid(f"{_ANY_FORMAT} only supported since microversion {mv.ANY_TRAITS}. {got}")
    names = _trait_names(value, version, key)
    if any(name.startswith(_NOT) for name in names):
        raise Invalid(f"{_ANY_FORMAT} does not support forbidden traits. {got}")
    return frozenset(names)


def _trait_names(value: str, version: Version, key: str) -> list[str]:
    names = [name.strip() for name in value.removeprefix(_ANY).split(",")]
    if not all(name.lstrip(_NOT) for name in names):
        raise _bad_traits(key, version, value, f"Got an empty trait in: {value}")
    return names


def _bad_traits(key: str, version: Version, value: str, reason: str) -> Invalid:
    any_of = _ANY if value.startswith(_ANY) else ""
    mark = _NOT if version.has(mv.FORBIDDEN_TRAITS) and not any_of else ""
    return Invalid(
        f"{_FAULT}: Expected '{key}' parameter value of the form: "
        f"{any_of}HW_CPU_X86_VMX,{mark}CUSTOM_MAGIC. {reason}"
    )


def parse_member_of(
    values: Sequence[str], version: Version, key: str = "member_of"
) -> AggregateTerms:
    """Return what the values of ``member_of`` ask for; ``key`` is its name in errors.

    ``uuid`` or ``in:uuid,uuid``; repeated from 1.24; ``!uuid`` and ``!in:uuid,uuid`` from 1.32.
    Raises :class:`Invalid`.
    """
    if len(values) > 1 and not version.has(mv.REPEATED_MEMBER_OF):
        raise Invalid(f"Multiple {key} parameters are not supported before 1.24")
    member_of: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        uuids = _uuids(value.removeprefix(_NOT), key)
        if not value.startswith(_NOT):
            member_of.append(uuids)
        elif version.has(mv.FORBIDDEN_AGGREGATES):
            forbidden |= uuids
        else:
            raise Invalid(
                f"Forbidden {key} parameters are not supported in the specified microversion, "
                f"they came with 1.32. Got: {value}"
            )
    return AggregateTerms(tuple(dict.fromkeys(member_of)), frozenset(forbidden))


def _uuids(text: str, key: str) -> frozenset[str]:
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


class _Parameters(NamedTuple):
    """A query string's names and values in the order sent, and the version it is read in."""

    query: tuple[tuple[str, str], ...]
    version: Version

    def values(self, key: str) -> list[str]:
        """Return every value of a parameter."""
        return [value for name, value in self.query if name == key]

    def first(self, key: str) -> str | None:
        """Return the first value of a parameter, or None."""
        return next(iter(self.values(key)), None)


def query_of(call: Call) -> CandidatesQuery:
    """Return the question that a query string, already of its schema, asks.

    Raises :class:`Invalid` for what is malformed or contradicts itself, naming the parameter.
    """
    most: int = call.services.settings.placement.max_request_groups
    asked = _Parameters(call.query, call.version)
    size = sum(len(name) + len(value) for name, value in call.query)
    return _recent(asked, most) if size <= _REMEMBERED else _question(asked, most)


@lru_cache(maxsize=1000)  # what a flavor asks for is asked for each of its instances
def _recent(asked: _Parameters, most: int) -> CandidatesQuery:
    return _question(asked, most)


def _question(asked: _Parameters, most: int) -> CandidatesQuery:
    # Of several faults the one is reported that OpenStack placement reports.
    root = _root(asked)
    # Each costs a comparison of every combination, a repeated one too.
    ties = tuple(dict.fromkeys(_tie(text) for text in asked.values("same_subtree")))
    suffixes = dict.fromkeys(
        match["suffix"] for key, _ in asked.query if (match := _KEY.match(key))
    )
    if len(suffixes) > most:
        raise TooComplex(
            f"{_FAULT}: {len(suffixes)} request groups exceed [placement] max_request_groups "
            f"({most})."
        )
    groups = tuple(_group(asked, suffix) for suffix in suffixes)
    _check_conditions(groups, root)
    if not asked.version.has(mv.SAME_SUBTREE):
        _check_resourceless(asked, groups, set())
    _check_resources(asked, groups)
    for tie in ties:
        if unknown := sorted(set(tie).difference(suffixes)):
            raise BadValue(
                f"Real suffixes should be specified in `same_subtree`: {unknown} not found in "
                f"{sorted(suffixes)}."
            )
    _check_resourceless(asked, groups, {suffix for tie in ties for suffix in tie})
    _check_conflicts(groups)
    # Of these two the first value counts, of all others the last: as in OpenStack placement.
    policy, limit = asked.first("group_policy"), asked.first("limit")
    if not policy and sum(1 for suffix in suffixes if suffix) > 1:
        raise Invalid(
            'The "group_policy" parameter is required when specifying more than one '
            '"resources{N}" parameter.'
        )
    if limit is not None and not _LIMIT.fullmatch(limit):
        raise Invalid(f"{_FAULT}: the first limit is not an amount: {limit}")
    return CandidatesQuery(
        groups=groups,
        group_policy=policy if policy in {None, "isolate"} else "none",
        root=root,
        same_subtrees=ties,
        limit=None if limit is None else min(int(limit[:12]), MAX_INT),
    )


def _check_conditions(groups: Iterable[RequestGroup], root: TraitTerms) -> None:
    terms = (root, *(group.traits for group in groups))
    number = sum(len(one.required) + len(one.forbidden) for one in terms)
    number += sum(len(group.aggregates.member_of) for group in groups)
    if number > MAX_CONDITIONS:
        raise TooComplex(
            f"{_FAULT}: {number} conditions on traits and aggregates, at most {MAX_CONDITIONS}."
        )


def _root(asked: _Parameters) -> TraitTerms:
    values = asked.values("root_required")
    if len(values) > 1:
        raise Invalid(
            "Query parameter 'root_required' may be specified only once.",
            code="placement.query.duplicate_key",
        )
    if values and values[0].startswith(_ANY):
        raise Invalid(f"{_FAULT}: 'root_required' takes no any-traits. Got: {values[0]}")
    terms = parse_traits(values, asked.version, "root_required")
    if both := _both(terms):
        raise BadValue(f"Conflicting required and forbidden traits found in root_required: {both}")
    return terms


def _tie(text: str) -> tuple[str, ...]:
    """Return the suffixes of the groups whose providers shall be of one subtree."""
    named = tuple(dict.fromkeys(suffix.strip() for suffix in text.split(",")))
    if "" in named:
        raise BadValue("Empty string (unsuffixed group) can not be specified in `same_subtree`")
    return named


def _group(asked: _Parameters, suffix: str) -> RequestGroup:
    # Each value has to be well formed, the last one counts.
    amounts = [parse_resources(text) for text in asked.values(f"resources{suffix}")]
    required, member_of, in_tree = f"required{suffix}", f"member_of{suffix}", f"in_tree{suffix}"
    traits = parse_traits(asked.values(required), asked.version, required)
    aggregates = parse_member_of(asked.values(member_of), asked.version, member_of)
    tree = None
    for text in asked.values(in_tree):
        tree = read_uuid(text.strip())
        if tree is None:
            raise Invalid(
                f"{_FAULT}: Expected '{in_tree}' parameter to be a format of uuid. Got: {text}"
            )
    resources = tuple(amounts[-1].items()) if amounts else ()
    return RequestGroup(
        suffix=suffix, resources=resources, traits=traits, aggregates=aggregates, in_tree=tree
    )


def _check_resources(asked: _Parameters, groups: Iterable[RequestGroup]) -> None:
    if any(group.resources for group in groups):
        return
    given = f"Got: {', '.join(sorted({key for key, _ in asked.query})) or 'no parameters'}"
    if asked.version.has(mv.SAME_SUBTREE):
        raise Invalid(
            f"There must be at least one resources or resources[$S] parameter. {given}",
            code="placement.query.missing_value",
        )
    raise Invalid(
        f"At least one request group (`resources` or `resources{{$S}}`) is required. {given}"
    )


def _check_resourceless(asked: _Parameters, groups: Iterable[RequestGroup], tied: set[str]) -> None:
    """Raise for a group without resources, unless a subtree ties it to others (from 1.36)."""
    bare = [group.suffix for group in groups if not group.resources and group.suffix not in tied]
    if bare and asked.version.has(mv.SAME_SUBTREE):
        raise BadValue(
            "Resourceless suffixed group request should be specified in `same_subtree` query "
            f"param: bad group(s) - {bare}."
        )
    keys = {key for key, _ in asked.query}
    for name, words in (("required", "traits"), ("member_of", "member_of"), ("in_tree", "in_tree")):
        if orphans := [f"{name}{suffix}" for suffix in bare if f"{name}{suffix}" in keys]:
            raise Invalid(
                f"All request groups must specify resources. All {words} parameters must be "
                "associated with resources. Found the following "
                f"orphaned {words} keys: {', '.join(orphans)}"
            )


def _check_conflicts(groups: Iterable[RequestGroup]) -> None:
    found = [
        f"required{group.suffix}: ({both})" for group in groups if (both := _both(group.traits))
    ]
    if found:
        raise Invalid(
            "Conflicting required and forbidden traits found in the following traits keys: "
            + ", ".join(found)
        )


def _both(terms: TraitTerms) -> str:
    """Return the traits that are forbidden, and of which one is required."""
    impossible = (any_of for any_of in terms.required if any_of <= terms.forbidden)
    return ", ".join(sorted(set().union(*impossible)))
