"""JSON documents, and the values made from them that nova's plugins read."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson

from placement_sched.limits import MAX_JSON_DEPTH

#: A JSON object, and one that is only read.
Json = dict[str, Any]
Document = Mapping[str, Any]
#: Up to here every whole number has a float of its own.
_EXACT = 2**53


def encoded(document: Any) -> bytes:
    """Return a document as JSON.

    A capacity may be a whole number of more than 64 bits, which orjson does not write.
    """
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError as failure:
        if "64-bit" not in str(failure):
            raise
    # Moments are written as orjson writes them.
    text = json.dumps(
        document, ensure_ascii=False, separators=(",", ":"), default=datetime.isoformat
    )
    return text.encode()


def storable(document: Any) -> str:
    """Return a document as JSON of ASCII characters, which every database can store."""
    text = orjson.dumps(document).decode()
    return text if text.isascii() else json.dumps(orjson.loads(text), separators=(",", ":"))


def decoded(text: str | bytes) -> Any:
    """Return the JSON document that a text from outside says.

    Raises :class:`ValueError`, with the place, for what is not JSON or cannot be encoded again,
    as half of a pair of surrogates, and for lists and objects nested deeper than
    :data:`~placement_sched.limits.MAX_JSON_DEPTH`.
    """
    document = orjson.loads(text)
    if is_deeper(document, MAX_JSON_DEPTH):
        raise ValueError(f"its lists and objects are nested more than {MAX_JSON_DEPTH} deep")
    return document


def with_whole_numbers(document: Any) -> Any:
    """Return a decoded JSON document in which every whole number is an ``int``."""
    if isinstance(document, dict):
        return {key: with_whole_numbers(value) for key, value in document.items()}
    if isinstance(document, list):
        return [with_whole_numbers(value) for value in document]
    if isinstance(document, float) and document.is_integer() and abs(document) <= _EXACT:
        return int(document)
    return document


def is_larger(document: Any, most: int) -> bool:
    """Return whether a document has more than ``most`` values; keys of objects count as well."""
    left, waiting = most, [document]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            left -= 2 * len(one)
            inner: Iterable[Any] = one.values()
        elif isinstance(one, list):
            left -= len(one)
            inner = one
        else:
            continue
        if left < 0:
            return True
        waiting.extend(inner)
    return False


def is_deeper(document: Any, most: int) -> bool:
    """Return whether lists and objects are in one another for more than ``most`` levels."""
    level = [one for one in (document,) if isinstance(one, dict | list)]
    for _ in range(most):
        if not level:
            return False
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def not_text(document: Any) -> tuple[str, list[str | int]] | None:
    """Return a text or key of a document that UTF-8 has no bytes for, and the keys that lead there.

    Arguments of a command that are not UTF-8 have such texts. None where there is none.
    """
    waiting: list[tuple[Any, list[str | int]]] = [(document, [])]
    while waiting:
        one, keys = waiting.pop()
        if isinstance(one, str) and not _is_text(one):
            return one, keys
        if isinstance(one, dict):
            if wrong := next((key for key in one if not _is_text(key)), None):
                return wrong, keys
            waiting += [(value, [*keys, key]) for key, value in one.items()]
        elif isinstance(one, list | tuple):
            waiting += [(value, [*keys, index]) for index, value in enumerate(one)]
    return None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class NovaObject:
    """The base of values whose attributes are asked for by name, as nova's objects are."""

    __slots__ = ()

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether there is something under this name."""
        return getattr(self, name, None) is not None

    def __contains__(self, name: str) -> bool:
        return self.obj_attr_is_set(name)


class NovaObjectDictCompat(NovaObject):
    """The base of values that plugins also read as dictionaries, as they do nova's objects."""

    __slots__ = ()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute of this name."""
        return getattr(self, name, default)

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def __contains__(self, name: str) -> bool:
        return hasattr(self, name)
