"""Shapes of JSON values: each reads a value, or tells what is wrong with it and where.

A shape is a function from a decoded JSON value to what the code works with. The place of a
fault is put together on the way up, so that a good document pays nothing for it.
"""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from placement_sched.errors import Invalid
from placement_sched.model.inventory import MAX_INT

T = TypeVar("T")

#: Reads a value of this shape; raises :class:`Misfit`.
Shape = Callable[[Any], T]

_SHOWN = 60
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Control characters, and halves of characters, which no encoding can write.
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
#: Before it no cloud reported, and MariaDB's earliest date is not much older.
_EARLIEST = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as the tables keep it


class Misfit(Exception):
    """A value that does not have its shape: what is wrong, and the keys that lead to it.

    With ``at_key`` it is the last key itself that is wrong, whatever stands under it.
    """

    def __init__(self, what: str, *keys: str | int, at_key: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.keys = keys
        self.at_key = at_key

    def under(self, *keys: str | int) -> "Misfit":
        """Return the same fault as seen from the value that holds the faulty one."""
        return Misfit(self.what, *keys, *self.keys, at_key=self.at_key)


def read(shape: Shape[T], document: Any, at: str = "$") -> T:
    """Return what ``shape`` makes of ``document``, which stands at the JSON path ``at``.

    Raises :class:`Invalid` that tells the JSON path of the fault.
    """
    try:
        return shape(document)
    except Misfit as misfit:
        path = at + "".join(_step(key) for key in misfit.keys)
        raise Invalid(f"{misfit.what} (at {path})", code="scheduler.bad_value") from None


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{key!r}]"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def integer(minimum: int = 0, maximum: int = MAX_INT) -> Shape[int]:
    """Return the shape of whole numbers; as in JSON Schema 4.0 is one, and true is none."""

    def shape(value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise Misfit(f"{_shown(value)} is not an integer")
        if not minimum <= value <= maximum:
            raise Misfit(f"{_shown(value)} is not within {minimum} and {maximum}")
        return value

    return shape


def number(minimum: float, maximum: float) -> Shape[float]:
    """Return the shape of numbers."""

    def shape(value: Any) -> float:
        if type(value) not in {int, float}:
            raise Misfit(f"{_shown(value)} is not a number")
        if not minimum <= value <= maximum:
            raise Misfit(f"{_shown(value)} is not within {minimum} and {maximum}")
        return float(value)

    return shape


def boolean(value: Any) -> bool:
    """Return a boolean as it is."""
    if not isinstance(value, bool):
        raise Misfit(f"{_shown(value)} is not a boolean")
    return value


def text(longest: int = 255, shortest: int = 0) -> Shape[str]:
    """Return the shape of texts of some length, without the characters no database keeps alike."""

    def shape(value: Any) -> str:
        if not isinstance(value, str):
            raise Misfit(f"{_shown(value)} is not a string")
        if not shortest <= len(value) <= longest:
            raise Misfit(
                f"{_shown(value)} has {len(value)} characters, not {shortest} to {longest}"
            )
        if _CONTROL.search(value):
            raise Misfit(f"{_shown(value)} has control characters")
        return value

    return shape


def name(longest: int = 255) -> Shape[str]:
    """Return the shape of names: not empty, and no blank at either end.

    MariaDB compares without heed of blanks at the end, so that they would tell nothing apart.
    """
    as_text = text(longest, shortest=1)

    def shape(value: Any) -> str:
        if as_text(value) != value.strip():
            raise Misfit(f"{_shown(value)} begins or ends with a blank")
        return str(value)

    return shape


def uuid(value: Any) -> str:
    """Return a uuid in its usual form, lower case with hyphens."""
    try:
        found = UUID(value)
        # Python takes underscores and 0x in a number for good, and so in a uuid.
        written = found.hex in value.replace("-", "").lower()
    except (AttributeError, TypeError, ValueError):
        written = False
    if not written:
        raise Misfit(f"{_shown(value)} is not a uuid")
    return str(found)


def moment(value: Any) -> datetime:
    """Return an ISO 8601 time as naive UTC without a fraction; without a zone it is UTC."""
    try:
        parsed = datetime.fromisoformat(value)
        if parsed.tzinfo is not None:
            parsed = parsed.astimezone(UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError):
        raise Misfit(f"{_shown(value)} is not an ISO 8601 time") from None
    if parsed < _EARLIEST:
        raise Misfit(f"{_shown(value)} is before {_EARLIEST.isoformat()}")
    return parsed.replace(microsecond=0)


def one_of(names: Collection[str], aliases: Mapping[str, str] | None = None) -> Shape[str]:
    """Return the shape of the members of an enumeration, whatever their case or alias."""
    known = {member: member for member in names} | dict(aliases or {})

    def shape(value: Any) -> str:
        found = known.get(value.lower()) if isinstance(value, str) else None
        if found is None:
            raise Misfit(f"{_shown(value)} is not one of {', '.join(sorted(names))}")
        return found

    return shape


def nullable(inner: Shape[T]) -> Shape[T | None]:
    """Return the shape of values that may be null."""

    def shape(value: Any) -> T | None:
        return None if value is None else inner(value)

    return shape


def list_of(inner: Shape[T]) -> Shape[tuple[T, ...]]:
    """Return the shape of lists."""

    def shape(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list | tuple):
            raise Misfit(f"{_shown(value)} is not a list")
        found: list[T] = []
        try:
            for item in value:
                found.append(inner(item))  # noqa: PERF401 - its length tells which item was wrong
        except Misfit as misfit:
            raise misfit.under(len(found)) from None
        return tuple(found)

    return shape


def mapping_of(keys: Shape[str], inner: Shape[T]) -> Shape[dict[str, T]]:
    """Return the shape of objects whose keys are free."""

    def shape(value: Any) -> dict[str, T]:
        found: dict[str, T] = {}
        for key, item in _object(value).items():
            try:
                named = keys(key)
            except Misfit as misfit:
                raise Misfit(misfit.what, key, at_key=True) from None
            try:
                found[named] = inner(item)
            except Misfit as misfit:
                raise misfit.under(key) from None
        return found

    return shape


def record(
    fields: Mapping[str, Shape[Any]], required: Collection[str] = ()
) -> Shape[dict[str, Any]]:
    """Return the shape of objects with these keys and no others; only those given are returned."""

    def shape(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in _object(value).items():
            inner = fields.get(key)
            if inner is None:
                raise Misfit("the key is unknown", key, at_key=True)
            try:
                found[key] = inner(item)
            except Misfit as misfit:
                raise misfit.under(key) from None
        for key in required:
            if key not in found:
                raise Misfit(f"{key!r} is required")
        return found

    return shape


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit(f"{_shown(value)} is not an object")
    for key in value:
        if not isinstance(key, str):
            raise Misfit(f"the key {_shown(key)} is not a string")
    return value
