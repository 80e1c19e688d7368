"""Follows the paths at which the checker of JSON schemas (jsonschema_rs) finds a fault."""

from collections.abc import Iterator, Sequence
from typing import Any


def found_at(fault: Any, document: Any) -> tuple[list[str | int], Any]:
    """Return the keys of a document that lead to what a fault is about, and the value there.

    Of several keys that the path may mean, one is taken under which that value is.
    """
    meant = _meant(fault.instance_path, document)
    first = next(meant)
    others = [one for one in meant if one[1] == fault.instance]
    return others[0] if others and first[1] != fault.instance else first


def step_into(container: Any, step: str | int) -> Any:
    """Return what a step of a path leads to, in a list or a mapping."""
    return container[next(_keys_of(container, step))]


def _meant(path: Sequence[str | int], value: Any) -> Iterator[tuple[list[str | int], Any]]:
    """Yield the keys that a path may mean, with the value that they lead to."""
    if not path:
        yield [], value
        return
    step, *rest = path
    for key in _keys_of(value, step):
        for keys, found in _meant(rest, value[key]):
            yield [key, *keys], found


def _keys_of(container: Any, step: str | int) -> Iterator[str | int]:
    """Yield the keys that one step may mean; of a list, and of a name, it is the step itself."""
    if isinstance(step, str):
        if isinstance(container, dict) and step in container:
            yield step
    elif isinstance(container, dict):
        yield from (key for key in container if _is_index(key, step))
    elif isinstance(container, list | tuple) and step < len(container):
        yield step


def _is_index(key: Any, step: int) -> bool:
    """Return whether the checker takes a key for an index: it names "1", "+1" and "01" alike."""
    if not isinstance(key, str):
        return False
    digits = key.removeprefix("+")
    # As texts, since Python makes no number of more than 4300 digits.
    return digits.isascii() and digits.isdigit() and (digits.lstrip("0") or "0") == str(step)
