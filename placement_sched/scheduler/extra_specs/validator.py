"""One extra spec that is known: its name and the values that it takes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placement_sched.errors import Invalid

#: What stands for a boolean, in any case and with white space around it.
_BOOLEANS = frozenset("1 t true on y yes 0 f false off n no".split())  # noqa: SIM905 - reads best

#: What ``value`` may say beside type and description, by type.
_LIMITS: Mapping[type, frozenset[str]] = {
    str: frozenset({"enum", "pattern"}),
    int: frozenset({"min", "max"}),
    bool: frozenset(),
}


@dataclass(frozen=True)
class ExtraSpecValidator:
    r"""An extra spec, as nova's validators have it.

    ``name`` may hold parameters in braces (``hw:numa_mem.{num}``), each of which ``parameters``
    tells: ``{"name": "num", "pattern": r"\d+", "description": "..."}``. ``value`` has a ``type``,
    ``str``, ``int`` or ``bool``, and for text ``enum`` or ``pattern``, for numbers ``min`` and
    ``max``, as limits. Raises :class:`ValueError` where it is told otherwise.
    """

    name: str
    description: str
    value: Mapping[str, Any]
    parameters: Sequence[Mapping[str, str]] | None = None

    def __post_init__(self) -> None:
        """Refuse what could never be checked, when it is made rather than when it is used."""
        kind = self.value.get("type")
        if not isinstance(kind, type) or kind not in _LIMITS:
            raise ValueError(f"{self.name}: the type of the value is none of str, int and bool")
        strange = set(self.value) - _LIMITS[kind] - {"type", "description"}
        if strange:
            raise ValueError(f"{self.name}: {kind.__name__} has no {', '.join(sorted(strange))}")
        try:
            re.compile(self.value.get("pattern", ""))
            self.name_pattern.fullmatch("")
        except (re.error, KeyError, TypeError) as wrong:
            raise ValueError(f"{self.name}: {wrong}") from None

    @property
    def name_pattern(self) -> re.Pattern[str]:
        """Return what every key of this name matches whole."""
        return re.compile(self._with_patterns(self.name))

    @property
    def namespace_pattern(self) -> re.Pattern[str] | None:
        """Return what the part before the colon of its keys matches whole, or None without one."""
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
        kind = self.value["type"]
        if kind is str:
            self._check_text(value)
        elif kind is int:
            self._check_number(value)
        elif value.strip().lower() not in _BOOLEANS:
            raise Invalid(f"Validation failed; '{value}' is not a valid boolean-like value.")

    def _check_text(self, value: str) -> None:
        choices, pattern = self.value.get("enum"), self.value.get("pattern")
        if choices is not None and value not in choices:
            raise Invalid(f"Validation failed; '{value}' is not one of: {', '.join(choices)}.")
        if pattern is not None and not re.fullmatch(pattern, value):
            raise Invalid(f"Validation failed; '{value}' is not of the format '{pattern}'.")

    def _check_number(self, value: str) -> None:
        try:
            number = int(value)
        except ValueError:
            raise Invalid(f"Validation failed; '{value}' is not a valid integer value.") from None
        least, most = self.value.get("min"), self.value.get("max")
        if least is not None and number < least:
            raise Invalid(f"Validation failed; '{value}' is less than the min value of '{least}'.")
        if most is not None and number > most:
            raise Invalid(
                f"Validation failed; '{value}' is greater than the max value of '{most}'."
            )
