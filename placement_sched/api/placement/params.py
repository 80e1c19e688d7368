"""Query values that several routes share: ``resources``, ``required`` and ``member_of``.

Source: Placement API reference, the parameters of these names of "List resource providers" and
"List allocation candidates".
"""

import re
from collections.abc import Sequence
from uuid import UUID

from placement_sched.api.microversion import Version
from placement_sched.api.placement.microversions import (
    ANY_TRAITS,
    FORBIDDEN_AGGREGATES,
    FORBIDDEN_TRAITS,
    REPEATED_MEMBER_OF,
)
from placement_sched.api.schema import is_uuid
from placement_sched.errors import Invalid
from placement_sched.model.inventory import MAX_INT
from placement_sched.model.query import AggregateTerms, TraitTerms

# Around it Python's int(), and so OpenStack placement, takes white space, but no separators.
_SPACE = r"[^\S\x1c-\x1f]*"
_AMOUNT = re.compile(rf"{_SPACE}[+-]?[0-9]{{1,4000}}{_SPACE}")
_ANY = "in:"
_NOT = "!"
_ANY_FORMAT = "Invalid query string parameters: The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC'"


def parse_resources(text: str) -> dict[str, int]:
    """Return the amounts by class of ``VCPU:2,MEMORY_MB:1024``; of a repeated class the last.

    Amounts larger than any inventory come back as just too large. Raises :class:`Invalid`.
    """
    amounts = {}
    for part in text.split(","):
        name, colon, amount = part.partition(":")
        if not colon or ":" in amount:
            got = part if text else "empty string"
            of = "" if part == text else f" This is a part of {text}"
            raise Invalid(
                "Badly formed resources parameter. Expected resources query string parameter in "
                f"form: ?resources=VCPU:2,MEMORY_MB:1024. Got: {got}.{of}"
            )
        amounts[name] = _amount(name, amount)
    return amounts


def _amount(name: str, text: str) -> int:
    if not _AMOUNT.fullmatch(text):
        raise Invalid(f"Requested resource {name} expected positive integer amount. Got: {text}.")
    amount = int(text)
    if amount < 1:
        raise Invalid(f"Requested resource {name} requires amount >= 1. Got: {amount}.")
    return min(amount, MAX_INT + 1)


def parse_traits(values: Sequence[str], version: Version, key: str = "required") -> TraitTerms:
    """Return what the values of ``required`` ask for; ``key`` is the parameter's name in errors.

    ``A,!B`` from 1.22, ``in:A,B`` and repetition from 1.39; before, the last value counts.
    Whether the traits exist is not looked at. Raises :class:`Invalid`.
    """
    if not version.has(ANY_TRAITS):
        values = values[-1:]
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        if value.startswith(_ANY):
            required.append(_any_of(value, version, key))
            continue
        for name in _trait_names(value, value, version, key):
            if not name.startswith(_NOT):
                required.append(frozenset({name}))
            elif version.has(FORBIDDEN_TRAITS):
                # As in OpenStack placement, a mark too many forbids all the same.
                forbidden.add(name.lstrip(_NOT))
            else:
                reason = f"Got: {value} (traits can be forbidden since 1.22)"
                raise _bad_traits(key, version, value, reason)
    return TraitTerms(tuple(dict.fromkeys(required)), frozenset(forbidden))


def _any_of(value: str, version: Version, key: str) -> frozenset[str]:
    if not version.has(ANY_TRAITS):
        raise Invalid(
            f"{_ANY_FORMAT} only supported since microversion 1.39. Got: {value} in '{key}'"
        )
    names = _trait_names(value.removeprefix(_ANY), value, version, key)
    if any(name.startswith(_NOT) for name in names):
        raise Invalid(f"{_ANY_FORMAT} does not support forbidden traits. Got: {value} in '{key}'")
    return frozenset(names)


def _trait_names(text: str, value: str, version: Version, key: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(name.lstrip(_NOT) for name in names):
        raise _bad_traits(key, version, value, f"Got an empty trait in: {value}")
    return names


def _bad_traits(key: str, version: Version, value: str, reason: str) -> Invalid:
    any_of = _ANY if value.startswith(_ANY) else ""
    mark = _NOT if version.has(FORBIDDEN_TRAITS) and not any_of else ""
    return Invalid(
        f"Invalid query string parameters: Expected '{key}' parameter value of the form: "
        f"{any_of}HW_CPU_X86_VMX,{mark}CUSTOM_MAGIC. {reason}"
    )


def parse_member_of(
    values: Sequence[str], version: Version, key: str = "member_of"
) -> AggregateTerms:
    """Return what the values of ``member_of`` ask for; ``key`` is its name in errors.

    ``uuid`` or ``in:uuid,uuid``; repeated from 1.24; ``!uuid`` and ``!in:uuid,uuid`` from 1.32.
    Raises :class:`Invalid`.
    """
    if len(values) > 1 and not version.has(REPEATED_MEMBER_OF):
        raise Invalid(f"Multiple {key} parameters are not supported before 1.24")
    member_of: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        negated = value.startswith(_NOT)
        uuids = _uuids(value.removeprefix(_NOT), key)
        if not negated:
            member_of.append(uuids)
        elif version.has(FORBIDDEN_AGGREGATES):
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
    return frozenset(_uuid(part, key) for part in text.removeprefix(_ANY).split(","))


def _uuid(text: str, key: str) -> str:
    try:
        return normal_uuid(text)
    except ValueError:
        raise Invalid(
            f"Invalid query string parameters: Expected '{key}' parameter to contain valid "
            f"UUID(s). Got: {text}"
        ) from None


def normal_uuid(text: str) -> str:
    """Return a uuid in lower case with hyphens; raises :class:`ValueError` for what is none."""
    if not is_uuid(text):
        raise ValueError(text)
    return str(UUID(text))
