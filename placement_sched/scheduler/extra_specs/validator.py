# SPDX-License-Identifier: Apache-2.0
"""Extra spec validators: names, allowed values, and the registry."""

import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.scheduler.plugins import describe_entry_point, load_entry_point

GROUP = "placement_sched.extra_spec_validators"
#: Value types for the tables in this package.
TEXT: Mapping[str, Any] = {"type": str}
FLAG: Mapping[str, Any] = {"type": bool}

#: Texts of booleans, in any case and with surrounding white space.
_BOOLEANS = frozenset("1 t true on y yes 0 f false off n no".split())  # noqa: SIM905 - reads best

#: Further keys of ``value``, by type.
_LIMITS: Mapping[type, frozenset[str]] = {
    str: frozenset({"enum", "pattern"}),
    int: frozenset({"min", "max"}),
    bool: frozenset(),
}


@dataclass(frozen=True)
class ExtraSpecValidator:
    r"""An extra spec, as in nova's validators.

    ``name`` may have parameters in braces (``hw:numa_mem.{num}``), which ``parameters`` describes:
    ``{"name": "num", "pattern": r"\d+", "description": "..."}``. ``value`` has a ``type``, ``str``,
    ``int`` or ``bool``, and limits: ``enum`` or ``pattern`` for text, ``min`` and ``max`` for
    numbers. Raises :class:`ValueError` for an invalid definition.
    """

    name: str
    description: str
    value: Mapping[str, Any]
    parameters: Sequence[Mapping[str, str]] | None = None

    def __post_init__(self) -> None:
        kind = self.value.get("type")
        if not isinstance(kind, type) or kind not in _LIMITS:
            raise ValueError(f"{self.name}: the type of the value must be str, int or bool")
        unknown = set(self.value) - _LIMITS[kind] - {"type", "description"}
        if unknown:
            raise ValueError(f"{self.name}: {kind.__name__} has no {', '.join(sorted(unknown))}")
        try:
            re.compile(self.value.get("pattern", ""))
            self.name_pattern.fullmatch("")
        except (re.error, KeyError, TypeError) as error:
            raise ValueError(f"{self.name}: {error}") from None

    @property
    def name_pattern(self) -> re.Pattern[str]:
        """Return the pattern of complete keys."""
        return re.compile(self._with_patterns(self.name))

    @property
    def namespace_pattern(self) -> re.Pattern[str] | None:
        """Return the pattern of the part before the colon, or None."""
        namespace, colon, _ = self.name.partition(":")
        return re.compile(self._with_patterns(namespace)) if colon else None

    def _with_patterns(self, name: str) -> str:
        patterns = {parameter["name"]: parameter["pattern"] for parameter in self.parameters or ()}
        parts = re.split(r"\{(\w+)\}", name)
        return "".join(
            f"(?:{patterns[part]})" if index % 2 else re.escape(part)
            for index, part in enumerate(parts)
        )

    def check(self, value: str) -> None:
        """Reject a value that the extra spec does not allow, with :class:`Invalid`."""
        kind, problem = self.value["type"], None
        choices, pattern = self.value.get("enum"), self.value.get("pattern")
        if kind is int:
            problem = self._check_number(value)
        elif kind is bool and value.strip().lower() not in _BOOLEANS:
            problem = "not a valid boolean-like value"
        elif choices is not None and value not in choices:
            problem = f"not one of: {', '.join(choices)}"
        elif pattern is not None and not re.fullmatch(pattern, value):
            problem = f"not of the format '{pattern}'"
        if problem:
            raise Invalid(f"Validation failed; '{value}' is {problem}.")

    def _check_number(self, value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:
            return "not a valid integer value"
        minimum, maximum = self.value.get("min"), self.value.get("max")
        if minimum is not None and number < minimum:
            return f"less than the min value of '{minimum}'"
        if maximum is not None and number > maximum:
            return f"greater than the max value of '{maximum}'"
        return None


def one_of(*choices: str) -> Mapping[str, Any]:
    """Return the value type of texts from a list."""
    return {"type": str, "enum": choices}


def like(pattern: str) -> Mapping[str, Any]:
    """Return the value type of texts that the whole regular expression matches."""
    return {"type": str, "pattern": pattern}


def number(minimum: int | None = None, **limits: int) -> Mapping[str, Any]:
    """Return the value type of integers, optionally with a minimum."""
    return {"type": int, **({} if minimum is None else {"min": minimum}), **limits}


def validators(
    table: Mapping[str, tuple[str, Mapping[str, Any]]], *parameters: Mapping[str, str]
) -> list[ExtraSpecValidator]:
    """Build validators from a table of names, descriptions and value types."""
    return [
        ExtraSpecValidator(name, description, value, parameters or None)
        for name, (description, value) in table.items()
    ]


def check(key: str, value: str) -> None:
    """Reject an extra spec that a flavor must not have.

    Raises :class:`Invalid`, and :class:`ConfigurationError` if the validators of an installed
    package cannot be loaded.
    """
    plain, patterned, namespaces = _index()
    matches = (candidate for pattern, candidate in patterned if pattern.fullmatch(key))
    validator = plain.get(key) or next(matches, None)
    namespace, colon, _ = key.partition(":")
    if validator is not None:
        validator.check(value)
    elif colon and any(candidate.fullmatch(namespace) for candidate in namespaces):
        raise Invalid(
            f"Validation failed; extra spec '{key}' does not appear to be a valid extra spec."
        )


@cache
def all_validators() -> tuple[ExtraSpecValidator, ...]:
    """Return all validators, sorted by name and cached for the life of the process.

    Raises :class:`ConfigurationError`, naming the entry point, if it is invalid.
    """
    registered: list[ExtraSpecValidator] = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)], f"{__package__}."):
        register = getattr(import_module(module.name), "register", None)
        registered += register() if register is not None else ()
    registered += _load_from_packages()
    return tuple(sorted(registered, key=lambda each: each.name))


@cache
def _index() -> tuple[
    dict[str, ExtraSpecValidator],
    list[tuple[re.Pattern[str], ExtraSpecValidator]],
    set[re.Pattern[str]],
]:
    """Index plain validators by name and parametrized validators by pattern, with namespaces."""
    every = all_validators()
    return (
        {each.name: each for each in every if not each.parameters},
        [(each.name_pattern, each) for each in every if each.parameters],
        {each.namespace_pattern for each in every if each.namespace_pattern is not None},
    )


def _load_from_packages() -> Iterator[ExtraSpecValidator]:
    for entry_point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        for validator in load_entry_point(entry_point, partial(_call_register, entry_point)):
            if not isinstance(validator, ExtraSpecValidator):
                origin = describe_entry_point(entry_point)
                raise ConfigurationError(f"{origin}: {validator!r} is not an ExtraSpecValidator")
            yield validator


def _call_register(announced: EntryPoint) -> list[Any]:
    return list(announced.load().register())
