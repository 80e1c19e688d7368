"""Whole numbers as JSON writes them: ``2.0`` is an integer there, and Python's is ``2``."""

from typing import Any

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
