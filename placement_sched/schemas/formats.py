# SPDX-License-Identifier: Apache-2.0
"""Readers of the formats in JSON Schemas, and errors in documents."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from typing import Any, TypeVar

from oslo_utils.strutils import bool_from_string

from placement_sched.errors import Invalid, shorten
from placement_sched.limits import MAX_VALUE_CHARACTERS
from placement_sched.model import names
from placement_sched.model.document import PathStep, build_json_path
from placement_sched.model.names import canonicalize_uuid, read_uuid

T = TypeVar("T")

_LIKE_UUID = re.compile(names.LIKE_UUID)
#: No host reports an earlier time, and MariaDB cannot store much earlier times.
_EARLIEST = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as the tables keep it


class DocumentError(Exception):
    """An invalid value in a document, and the keys that lead to it.

    With ``at_key``, the last key itself is invalid, not its value. If the value does not match a
    schema, ``fault`` has the error as data.
    """

    def __init__(
        self,
        detail: str,
        *keys: PathStep,
        at_key: bool = False,
        fault: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.keys = keys
        self.at_key = at_key
        self.fault = fault

    def build_invalid(self, root: str = "$") -> Invalid:
        """Convert the error to :class:`Invalid` with a JSON path below ``root``."""
        path = build_json_path(self.keys, root)
        fault = {**(self.fault or {}), "problem": self.detail, "path": path}
        return Invalid(self.detail, json_path=path, code="scheduler.bad_value", fault=fault)


@contextmanager
def prefix_errors(*keys: PathStep) -> Iterator[None]:
    """Add these keys to the paths of errors that a ``with`` block raises."""
    try:
        yield
    except DocumentError as error:
        error.keys = (*keys, *error.keys)
        raise


def show_value(value: Any) -> str:
    """Format a value for a message: shortened JSON, text in single quotes."""
    if isinstance(value, str):
        return shorten(repr(value), MAX_VALUE_CHARACTERS)
    return shorten(json.dumps(value, ensure_ascii=False, default=repr), MAX_VALUE_CHARACTERS)


def read(reader: Callable[[Any], T], value: Any, json_path: str = "$") -> T:
    """Call a reader such as :func:`parse_uuid`, or raise :class:`Invalid`."""
    try:
        return reader(value)
    except DocumentError as error:
        raise error.build_invalid(json_path) from None


def parse_uuid(value: Any) -> str:
    """Convert a UUID to lower case with hyphens."""
    normalized = read_uuid(value)
    if normalized is None:
        raise DocumentError(f"{show_value(value)} is not a uuid")
    return normalized


def parse_boolean(value: str | bool, message: str) -> bool:
    """Parse a boolean as nova does, or raise :class:`Invalid`."""
    try:
        return bool_from_string(value, strict=True)
    except ValueError:
        raise Invalid(message) from None


def normalize_uuid(text: str) -> str:
    """Convert a UUID to the stored spelling, and keep any other text."""
    return read_uuid(text) or text


def format_seconds(moment: datetime | None) -> str | None:
    """Format a time as the compute and image APIs do, or return None."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_datetime(value: Any) -> datetime:
    """Parse an ISO 8601 time (UTC by default) to naive UTC, in seconds."""
    try:
        parsed = datetime.fromisoformat(value)
        if parsed.tzinfo is not None:
            parsed = parsed.astimezone(UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError):
        raise DocumentError(f"{show_value(value)} is not an ISO 8601 time") from None
    if parsed < _EARLIEST:
        raise DocumentError(f"{show_value(value)} is before {_EARLIEST.isoformat()}")
    return parsed.replace(microsecond=0)


def _normalize_address(value: str) -> str:
    try:
        return str(ip_address(value))
    except ValueError:
        raise DocumentError(f"{show_value(value)} is not an IP address") from None


def _check_text(is_valid: Callable[[str], bool], problem: str, value: str) -> str:
    if not is_valid(value):
        raise DocumentError(f"{show_value(value)} {problem}")
    return value


def _find_member(members: Collection[str], aliases: Mapping[str, str], value: str) -> str:
    name = value.lower()
    if name not in members and name not in aliases:
        raise DocumentError(f"{show_value(value)} is not one of {', '.join(sorted(members))}")
    return aliases.get(name, name)


#: The function that converts values of each format, or raises :class:`DocumentError`.
READERS: Mapping[str, Callable[[str], Any]] = {
    "uuid": parse_uuid,
    # As for POST /placement/allocations, a consumer uuid need not be a valid UUID.
    "consumer-uuid": lambda value: (
        canonicalize_uuid if _LIKE_UUID.fullmatch(value) else parse_uuid
    )(value),
    "moment": parse_datetime,
    "ip-address": _normalize_address,
    # MariaDB ignores trailing blanks in comparisons.
    "name": partial(
        _check_text, lambda value: value == value.strip(), "begins or ends with a blank"
    ),
    "printable": partial(_check_text, names.is_printable, "has characters that are not printable"),
    "printable-name": partial(
        _check_text, names.is_printable_name, "is not printable, or begins or ends with a blank"
    ),
    "architecture": partial(_find_member, names.ARCHITECTURES, names.ARCHITECTURE_ALIASES),
    "hypervisor-type": partial(_find_member, names.HYPERVISOR_TYPES, names.HYPERVISOR_TYPE_ALIASES),
    "vm-mode": partial(_find_member, names.VM_MODES, names.VM_MODE_ALIASES),
    "monitor-metric": partial(_find_member, names.MONITOR_METRICS, {}),
}


def _has_format(reader: Callable[[str], Any], value: object) -> bool:
    try:
        if isinstance(value, str):
            reader(value)
    except DocumentError:
        return False
    return True


#: The function that checks values of each format, for JSON Schema validators.
CHECKS: Mapping[str, Callable[[object], bool]] = {
    name: partial(_has_format, reader) for name, reader in READERS.items()
}
