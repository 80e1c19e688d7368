"""JSON documents, and the values made from them that nova's plugins read."""

from collections.abc import Mapping
from typing import Any

#: A JSON object, and one that is only read.
Json = dict[str, Any]
Document = Mapping[str, Any]
#: Up to here every whole number has a float of its own.
_EXACT = 2**53


def with_whole_numbers(document: Any) -> Any:
    """Return a decoded JSON document in which every whole number is an ``int``."""
    if isinstance(document, dict):
        return {key: with_whole_numbers(value) for key, value in document.items()}
    if isinstance(document, list):
        return [with_whole_numbers(value) for value in document]
    if isinstance(document, float) and document.is_integer() and abs(document) <= _EXACT:
        return int(document)
    return document


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
