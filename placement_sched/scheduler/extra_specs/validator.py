"""Extra specs that are known: the name of each, the values that it takes, and all of them."""

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
from placement_sched.scheduler.plugins import loaded, why

GROUP = "placement_sched.extra_spec_validators"

#: Texts that are a boolean, in any case and with white space around it.
_BOOLEANS = frozenset("1 t true on y yes 0 f false off n no".split())  # noqa: SIM905 - reads best

#: The keys of ``value`` beside type and description, by type.
_LIMITS: Mapping[type, frozenset[str]] = {
    str: frozenset({"enum", "pattern"}),
    int: frozenset({"min", "max"}),
    bool: frozenset(),
}


@dataclass(frozen=True)
class ExtraSpecValidator:
    r"""An extra spec, as nova's validators have it.

    ``name`` may hold parameters in braces (``hw:numa_mem.{num}``), each of which is described in
    ``parameters``: ``{"name": "num", "pattern": r"\d+", "description": "..."}``. ``value`` has a
    ``type``, ``str``, ``int`` or ``bool``, and for text ``enum`` or ``pattern``, for numbers
    ``min`` and ``max``, as limits. Raises :class:`ValueError` for other values of these.
    """

    name: str
    description: str
    value: Mapping[str, Any]
    parameters: Sequence[Mapping[str, str]] | None = None

    def __post_init__(self) -> None:
        """Reject what could never be checked, when it is made rather than when it is used."""
        kind = self.value.get("type")
        if not isinstance(kind, type) or kind not in _LIMITS:
            raise ValueError(f"{self.name}: the type of the value must be str, int or bool")
        unknown = set(self.value) - _LIMITS[kind] - {"type", "description"}
        if unknown:
            raise ValueError(f"{self.name}: {kind.__name__} has no {', '.join(sorted(unknown))}")
        try:
            re.compile(self.value.get("pattern", ""))
            self.name_pattern.fullmatch("")
        except (re.error, KeyError, TypeError) as wrong:
            raise ValueError(f"{self.name}: {wrong}") from None

    @property
    def name_pattern(self) -> re.Pattern[str]:
        """Return the pattern that every whole key of this name matches."""
        return re.compile(self._with_patterns(self.name))

    @property
    def namespace_pattern(self) -> re.Pattern[str] | None:
        """Return the pattern of the part before the colon of its keys, or None without one."""
        namespace, colon, _ = self.name.partition(":")
        return re.compile(self._with_patterns(namespace)) if colon else None

    def _with_patterns(self, name: str) -> str:
        """Return a part of the name as a regular expression, its parameters by their patterns."""
        patterns = {one["name"]: one["pattern"] for one in self.parameters or ()}
        parts = re.split(r"\{(\w+)\}", name)
        return "".join(
            f"(?:{patterns[part]})" if place % 2 else re.escape(part)
            for place, part in enumerate(parts)
        )

    def check(self, value: str) -> None:
        """Raise :class:`Invalid` where the extra spec cannot have this value."""
        kind, wrong = self.value["type"], None
        choices, pattern = self.value.get("enum"), self.value.get("pattern")
        if kind is int:
            wrong = self._wrong_number(value)
        elif kind is bool and value.strip().lower() not in _BOOLEANS:
            wrong = "not a valid boolean-like value"
        elif choices is not None and value not in choices:
            wrong = f"not one of: {', '.join(choices)}"
        elif pattern is not None and not re.fullmatch(pattern, value):
            wrong = f"not of the format '{pattern}'"
        if wrong:
            raise Invalid(f"Validation failed; '{value}' is {wrong}.")

    def _wrong_number(self, value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:
            return "not a valid integer value"
        least, most = self.value.get("min"), self.value.get("max")
        if least is not None and number < least:
            return f"less than the min value of '{least}'"
        if most is not None and number > most:
            return f"greater than the max value of '{most}'"
        return None


#: Kinds of values, for the tables of the modules here.
TEXT: Mapping[str, Any] = {"type": str}
FLAG: Mapping[str, Any] = {"type": bool}


def one_of(*choices: str) -> Mapping[str, Any]:
    """Return the kind of value that is one of these texts."""
    return {"type": str, "enum": choices}


def like(pattern: str) -> Mapping[str, Any]:
    """Return the kind of value that matches a regular expression whole."""
    return {"type": str, "pattern": pattern}


def number(least: int | None = None, **limits: int) -> Mapping[str, Any]:
    """Return the kind of value that is a whole number, not below ``least``."""
    return {"type": int, **({} if least is None else {"min": least}), **limits}


def validators(
    table: Mapping[str, tuple[str, Mapping[str, Any]]], *parameters: Mapping[str, str]
) -> list[ExtraSpecValidator]:
    """Return the validators of a table of names, each with its description and its value."""
    return [
        ExtraSpecValidator(name, description, value, parameters or None)
        for name, (description, value) in table.items()
    ]


def check(key: str, value: str) -> None:
    """Raise :class:`Invalid` where a flavor cannot have this extra spec.

    Raises :class:`ConfigurationError` where the validators of an installed package do not load.
    """
    plain, patterned, namespaces = _index()
    found = (one for pattern, one in patterned if pattern.fullmatch(key))
    validator = plain.get(key) or next(found, None)
    namespace, colon, _ = key.partition(":")
    if validator is not None:
        validator.check(value)
    elif colon and any(one.fullmatch(namespace) for one in namespaces):
        raise Invalid(
            f"Validation failed; extra spec '{key}' does not appear to be a valid extra spec."
        )


@cache
def all_validators() -> tuple[ExtraSpecValidator, ...]:
    """Return what is known, by name; what is installed stays while the process runs.

    Raises :class:`ConfigurationError` naming the entry point that is wrong.
    """
    found: list[ExtraSpecValidator] = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)], f"{__package__}."):
        register = getattr(import_module(module.name), "register", None)
        found += register() if register is not None else ()
    found += _announced()
    return tuple(sorted(found, key=lambda each: each.name))


@cache
def _index() -> tuple[
    dict[str, ExtraSpecValidator],
    list[tuple[re.Pattern[str], ExtraSpecValidator]],
    set[re.Pattern[str]],
]:
    """Return the validators by name, those with parameters by pattern, and the namespaces."""
    known = all_validators()
    return (
        {one.name: one for one in known if not one.parameters},
        [(one.name_pattern, one) for one in known if one.parameters],
        {one.namespace_pattern for one in known if one.namespace_pattern is not None},
    )


def _announced() -> Iterator[ExtraSpecValidator]:
    """Yield what installed packages register."""
    for one in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        where = f"entry point {one.name} ({one.value}) of {GROUP}"
        try:
            registered: list[Any] = loaded(partial(_registered_by, one))
        except Exception as failure:
            raise ConfigurationError(f"{where} cannot be loaded: {why(failure)}") from failure
        for validator in registered:
            if not isinstance(validator, ExtraSpecValidator):
                raise ConfigurationError(f"{where}: {validator!r} is not an ExtraSpecValidator")
            yield validator


def _registered_by(announced: EntryPoint) -> list[Any]:
    return list(announced.load().register())
