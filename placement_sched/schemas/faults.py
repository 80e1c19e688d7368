"""Faults that the checker of JSON schemas (jsonschema_rs) finds in a document."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import jsonschema_rs

from placement_sched.model.document import Json, is_larger

#: Maximum number of values of a document, with its keys, in which all faults are compared: the
#: checker makes every fault before it returns one.
MAX_COMPARED = 1000
#: Maximum number of faults that are compared.
MAX_FAULTS = 100

Keys = tuple[str | int, ...]


class Fault(NamedTuple):
    """A value of a document that does not fit its schema.

    ``keys`` lead to the value; ``keyword`` is that of ``schema`` which does not hold, ``expected``
    its value: for ``required`` the missing key, for ``additionalProperties`` the unknown keys.
    """

    keys: Keys
    keyword: str
    value: Any
    expected: Any
    schema_path: Keys
    schema: Json
    #: The checker's own description.
    message: str
    #: Why each of the alternatives of ``anyOf`` does not hold.
    alternatives: "tuple[Fault, ...]" = ()


def faults_in(
    checker: Any, document: Any, root: Json, compared: int = MAX_COMPARED
) -> Iterator[Fault]:
    """Yield the faults of a document by its schema ``root``; of a large one only the first.

    A document of more than ``compared`` values is large.
    """
    if not is_larger(document, compared):
        for error in islice(checker.iter_errors(document), MAX_FAULTS):
            yield _fault(error, document, root)
        return
    try:
        checker.validate(document)
    except jsonschema_rs.ValidationError as first:
        yield _fault(first, document, root)


def worst(faults: Iterable[Fault]) -> Fault | None:
    """Return the fault that says most: the outermost, and of the alternatives the innermost.

    It is the choice of ``best_match`` of the library jsonschema, whose messages OpenStack's
    placement shows.
    """
    fault = max(faults, key=_relevance, default=None)
    while fault is not None and fault.alternatives:
        inner = sorted(fault.alternatives, key=_relevance)
        if len(inner) > 1 and _relevance(inner[0]) == _relevance(inner[1]):
            break
        fault = inner[0]
    return fault


def _relevance(fault: Fault) -> tuple[Any, ...]:
    order = list(fault.schema).index(fault.keyword) if fault.keyword in fault.schema else 0
    return (-len(fault.keys), fault.keys, not fault.alternatives, fault.keyword == "type", -order)


def _fault(error: Any, document: Any, root: Json) -> Fault:
    keys, value = _found_at(error, document)
    kind = error.kind
    *path, keyword = error.schema_path
    schema = _schema_at(root, path)
    expected = schema.get(keyword)
    if kind.name == "propertyNames":
        value = kind.error.instance
    elif kind.name == "required":
        expected = kind.property
    elif kind.name == "additionalProperties":
        expected = list(kind.unexpected)
    alternatives = chain(*kind.context) if kind.name in {"anyOf", "oneOf"} else ()
    return Fault(
        keys=tuple(keys),
        keyword=str(keyword),
        value=value,
        expected=expected,
        schema_path=tuple(path),
        schema=schema,
        message=error.message,
        alternatives=tuple(_fault(inner, document, root) for inner in alternatives),
    )


def _schema_at(root: Json, path: Sequence[str | int]) -> Json:
    schema: Any = root
    for step in path:
        schema = resolved(root, schema[step]) if step == "$ref" else _step_into(schema, step)
    return schema if isinstance(schema, dict) else {}


def resolved(root: Json, reference: str) -> Json:
    """Return the part of a schema that a ``$ref`` names."""
    schema: Any = root
    for step in reference.removeprefix("#/").split("/"):
        schema = schema[step]
    return dict(schema)


def _found_at(error: Any, document: Any) -> tuple[list[str | int], Any]:
    """Return the keys of a document that lead to what an error is about, and the value there.

    Of several keys that the path may mean, one is taken under which that value is.
    """
    meant = _meant(error.instance_path, document)
    first = next(meant)
    others = [candidate for candidate in meant if candidate[1] == error.instance]
    return others[0] if others and first[1] != error.instance else first


def _step_into(container: Any, step: str | int) -> Any:
    """Return what a step of a path leads to, in a list or a mapping."""
    return container[next(_keys_of(container, step))]


def _meant(path: Sequence[str | int], value: Any) -> Iterator[tuple[list[str | int], Any]]:
    """Yield the keys that a path may mean, with the value that they lead to."""
    if not path:
        yield [], value
        return
    step, *rest = path
    for key in _keys_of(value, step):
        for keys, inner in _meant(rest, value[key]):
            yield [key, *keys], inner


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
