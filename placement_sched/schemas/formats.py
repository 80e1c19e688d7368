"""The formats that JSON schemas name, each with the function that reads a text of it."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from typing import Any, TypeVar

from placement_sched.errors import Invalid
from placement_sched.model import names as names_module
from placement_sched.model.names import canonical, read_uuid

T = TypeVar("T")

_SHOWN = 60
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LIKE_UUID = re.compile(names_module.LIKE_UUID)
#: Before it no cloud reported, and MariaDB's earliest date is not much older.
_EARLIEST = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as the tables keep it


class DocumentError(Exception):
    """A wrong value in a document: what is wrong, and the keys that lead to it.

    With ``at_key`` it is the last key itself that is wrong, not the value under it.
    """

    def __init__(self, what: str, *keys: str | int, at_key: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.keys = keys
        self.at_key = at_key

    def under(self, *keys: str | int) -> "DocumentError":
        """Return the same error as seen from the value that holds the wrong one."""
        return DocumentError(self.what, *keys, *self.keys, at_key=self.at_key)

    def at_path(self, start: str = "$") -> Invalid:
        """Return the error with its JSON path; the document itself is at ``start``."""
        for key in self.keys:
            start += f".{key}" if _PLAIN_KEY.fullmatch(str(key)) else f"[{key!r}]"
        return Invalid(self.what, at=start, code="scheduler.bad_value")


@contextmanager
def located(*keys: str | int) -> Iterator[None]:
    """Prefix the path of errors raised in the block with these keys."""
    try:
        yield
    except DocumentError as error:
        raise error.under(*keys) from None


def shown(value: Any) -> str:
    """Return a value as messages show it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def read(reader: Callable[[Any], T], value: Any, path: str = "$") -> T:
    """Return what a reader of a format makes of a value; raises :class:`Invalid` with its path."""
    try:
        return reader(value)
    except DocumentError as error:
        raise error.at_path(path) from None


def uuid(value: Any) -> str:
    """Return a uuid in lower case with hyphens."""
    found = read_uuid(value)
    if found is None:
        raise DocumentError(f"{shown(value)} is not a uuid")
    return found


def usual_uuid(text: str) -> str:
    """Return the UUID of a path as the database keeps it; any other text as it is.

    Nothing has such a text for its UUID, so that a path with it is answered with 404, not 400.
    """
    return read_uuid(text) or text


def in_seconds(moment: datetime | None) -> str | None:
    """Return a time as servers and images show it."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(value: Any) -> datetime:
    """Return an ISO 8601 time as naive UTC without a fraction; without a zone it is UTC."""
    try:
        parsed = datetime.fromisoformat(value)
        if parsed.tzinfo is not None:
            parsed = parsed.astimezone(UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError):
        raise DocumentError(f"{shown(value)} is not an ISO 8601 time") from None
    if parsed < _EARLIEST:
        raise DocumentError(f"{shown(value)} is before {_EARLIEST.isoformat()}")
    return parsed.replace(microsecond=0)


def _address(value: str) -> str:
    try:
        return str(ip_address(value))
    except ValueError:
        raise DocumentError(f"{shown(value)} is not an IP address") from None


def _checked(is_right: Callable[[str], bool], what: str, value: str) -> str:
    if not is_right(value):
        raise DocumentError(f"{shown(value)} {what}")
    return value


def _member(names: Collection[str], aliases: Mapping[str, str], value: str) -> str:
    """Return the name of a member of one of nova's enumerations, in any case or an alias."""
    found = value.lower()
    if found not in names and found not in aliases:
        raise DocumentError(f"{shown(value)} is not one of {', '.join(sorted(names))}")
    return aliases.get(found, found)


#: What reads a text of each format; raises :class:`DocumentError`.
READERS: Mapping[str, Callable[[str], Any]] = {
    "uuid": uuid,
    # As POST /placement/allocations accepts it.
    "consumer-uuid": lambda value: (canonical if _LIKE_UUID.fullmatch(value) else uuid)(value),
    "moment": moment,
    "ip-address": _address,
    # MariaDB ignores blanks at the end when it compares.
    "name": partial(_checked, lambda value: value == value.strip(), "begins or ends with a blank"),
    "printable": partial(
        _checked, names_module.is_printable, "has characters that are not printable"
    ),
    "printable-name": partial(
        _checked, names_module.is_printable_name, "is not printable, or begins or ends with a blank"
    ),
    "architecture": partial(_member, names_module.ARCHITECTURES, names_module.ARCHITECTURE_ALIASES),
    "hypervisor-type": partial(
        _member, names_module.HYPERVISOR_TYPES, names_module.HYPERVISOR_TYPE_ALIASES
    ),
    "vm-mode": partial(_member, names_module.VM_MODES, names_module.VM_MODE_ALIASES),
    "monitor-metric": partial(_member, names_module.MONITOR_METRICS, {}),
}


def _holds(reader: Callable[[str], Any], value: object) -> bool:
    try:
        if isinstance(value, str):
            reader(value)
    except DocumentError:
        return False
    return True


#: Whether a value has the format, as validators of JSON Schema ask for it.
CHECKS: Mapping[str, Callable[[object], bool]] = {
    name: partial(_holds, reader) for name, reader in READERS.items()
}
