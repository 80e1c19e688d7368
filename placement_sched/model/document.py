# SPDX-License-Identifier: Apache-2.0
"""JSON documents, JSON paths, and base classes of values for plugins."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from placement_sched.limits import MAX_JSON_DEPTH

#: A JSON object that may be changed, and a JSON object that is only read.
Json = dict[str, Any]
Document = Mapping[str, Any]
#: A key of an object or an index of a list in a JSON path.
PathStep = str | int
#: Up to this absolute value, every integer has an exact float.
_MAX_EXACT_INT = 2**53


def encode(document: Any) -> bytes:
    """Encode a document as JSON.

    The standard library encodes integers of more than 64 bits, which orjson rejects.
    """
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError as error:
        if "64-bit" not in str(error):
            raise
    # orjson writes datetimes in ISO 8601, too.
    text = json.dumps(
        document, ensure_ascii=False, separators=(",", ":"), default=datetime.isoformat
    )
    return text.encode()


def to_storable(document: Any, *, sort_keys: bool = False) -> str:
    """Encode a document as ASCII JSON, which every database can store."""
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS if sort_keys else None).decode()
    return text if text.isascii() else json.dumps(orjson.loads(text), separators=(",", ":"))


def decode(text: str | bytes) -> Any:
    """Decode a JSON text that a client sent or a file contains.

    Raises :class:`ValueError`, with the position, for invalid JSON, unpaired surrogates and more
    levels than :data:`~placement_sched.limits.MAX_JSON_DEPTH`.
    """
    document = orjson.loads(text)
    if is_deeper(document, MAX_JSON_DEPTH):
        raise ValueError(f"its lists and objects are nested more than {MAX_JSON_DEPTH} deep")
    return document


def with_whole_numbers(document: Any) -> Any:
    """Return a copy of a document with floats such as 4.0 as integers."""
    if isinstance(document, dict):
        return {key: with_whole_numbers(value) for key, value in document.items()}
    if isinstance(document, list):
        return [with_whole_numbers(value) for value in document]
    if isinstance(document, float) and document.is_integer() and abs(document) <= _MAX_EXACT_INT:
        return int(document)
    return document


def is_larger(document: Any, limit: int) -> bool:
    """Return whether the values and keys of a document exceed ``limit``."""
    remaining, waiting = limit, [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            remaining -= 2 * len(value)
            inner: Iterable[Any] = value.values()
        elif isinstance(value, list):
            remaining -= len(value)
            inner = value
        else:
            continue
        if remaining < 0:
            return True
        waiting.extend(inner)
    return False


def is_deeper(document: Any, limit: int) -> bool:
    """Return whether lists and objects are nested over ``limit`` levels."""
    level = [value for value in (document,) if isinstance(value, dict | list)]
    for _ in range(limit):
        if not level:
            return False
        level = [
            child
            for value in level
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, dict | list)
        ]
    return bool(level)


def find_invalid_text(document: Any) -> tuple[str, list[PathStep]] | None:
    """Return a string that UTF-8 cannot encode, and its path, or None.

    Command line arguments that are not in UTF-8 contain such strings. For a key of an object, the
    path of the object is returned.
    """
    waiting: list[tuple[Any, list[PathStep]]] = [(document, [])]
    while waiting:
        value, keys = waiting.pop()
        if isinstance(value, str) and not _is_utf8(value):
            return value, keys
        if isinstance(value, dict):
            if wrong := next((key for key in value if not _is_utf8(key)), None):
                return wrong, keys
            waiting += [(child, [*keys, key]) for key, child in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(child, [*keys, index]) for index, child in enumerate(value)]
    return None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


#: A key that needs no quotes in a JSON path.
_BARE_KEY = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")
_STEP = re.compile(
    r"\['(?P<quoted>(?:[^'\\]|\\.)*)'\]|\[(?P<position>\d+)\]|(?:^|\.)(?P<plain>[^.\[$]+)"
)


def build_json_path(steps: Iterable[PathStep], root: str = "$") -> str:
    """Build the JSON path ``$.a[1].b`` from the steps ``a``, 1 and ``b``."""
    path = root
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _BARE_KEY.fullmatch(step):
            path += f".{step}"
        else:
            escaped = step.replace("\\", "\\\\").replace("'", "\\'")
            path += f"['{escaped}']"
    return path


def split_json_path(path: str) -> tuple[PathStep, ...]:
    """Split a JSON path, or the name of a query parameter, into its steps."""
    steps: list[PathStep] = []
    for step in _STEP.finditer(path):
        if step["position"] is not None:
            steps.append(int(step["position"]))
        elif step["quoted"] is not None:
            steps.append(re.sub(r"\\(.)", r"\1", step["quoted"]))
        else:
            steps.append(step["plain"])
    return tuple(steps)


def join_keys(steps: Iterable[PathStep], separator: str = ".") -> str:
    """Join the keys of a path to text such as ``add.count``, without indexes."""
    return separator.join(step for step in steps if isinstance(step, str))


def find_name(
    steps: Sequence[PathStep], names: Mapping[str, str]
) -> tuple[str, Sequence[PathStep]] | None:
    """Find the name of the longest prefix of a path that has a name.

    ``names`` maps prefixes, as joined by :func:`join_keys`, to names. Also returns the other steps.
    """
    for size in range(len(steps), 0, -1):
        if (name := names.get(join_keys(steps[:size]))) is not None:
            return name, steps[size:]
    return None


def build_plain_error(kind: type, name: str) -> Exception:
    """Return the error for an attribute that a class or its objects lack."""
    return AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")


_build_error: Callable[[type, str], Exception] = build_plain_error


def set_attribute_error(build_error: Callable[[type, str], Exception] = build_plain_error) -> None:
    """Set the function that builds the error for a missing attribute.

    It is called with the class of the value and the name of the attribute.
    """
    global _build_error  # noqa: PLW0603 - of the process
    _build_error = build_error


class _PluginValueClass(type):
    """Metaclass that reports missing methods of classes, such as look-ups."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            raise _build_error(cls, name)


class PluginValue(metaclass=_PluginValueClass):
    """Base class of values of plugins, which reports missing attributes."""

    __slots__ = ()

    # Type checkers would allow any attribute.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise _build_error(type(self), name)


class NovaObject(PluginValue):
    """Base class of values with ``in`` and ``obj_attr_is_set``, as in nova."""

    __slots__ = ()

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether the attribute exists and is not None."""
        return getattr(self, name, None) is not None

    def __contains__(self, name: str) -> bool:
        return self.obj_attr_is_set(name)


class NovaObjectDictCompat(NovaObject):
    """Base class of values that plugins also read as dictionaries, as in nova."""

    __slots__ = ()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute with this name, or ``default``."""
        return getattr(self, name, default)

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)
