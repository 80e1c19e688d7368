"""JsonFilter: hosts for which a condition in JSON holds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import eq, ge, gt, le, lt
from types import MappingProxyType
from typing import Any

import orjson

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_QUERY_CHARACTERS, MAX_QUERY_DEPTH, MAX_QUERY_VALUES
from placement_sched.model.document import is_larger
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Refusal,
    Remedy,
    RequestSpec,
)
from placement_sched.scheduler.filters.changed_requests import without_hint

_HINT = "$.request_spec.scheduler_hints.query"


class JsonFilter(BaseHostFilter):
    """Lets hosts pass for which the condition of the hint ``query`` holds.

    The condition is a list in JSON: an operator (``=``, ``<``, ``>``, ``in``, ``<=``, ``>=``,
    ``not``, ``or``, ``and``), then what it is about, lists of the same kind among it::

        ["and", [">=", "$free_ram_mb", 1024], ["not", ["in", "$host", "cn1", "cn2"]]]

    ``$free_ram_mb`` is an attribute of the host, ``$stats.num_instances`` goes on by key. A
    comparison holds if it does between the first value and each of the others; ``in`` asks whether
    the first is one of them. An attribute that the host lacks is left out, and a comparison of
    fewer than two values does not hold. ``not`` turns each of its values, and a list of several
    holds if one does. As it was until nova 18; a host for which values cannot be compared, text
    with a number say, is an error.
    """

    def check(self, spec_obj: RequestSpec) -> None:
        """Raise :class:`Invalid` for a query that cannot be read, with the place in it."""
        query = _query(spec_obj)
        _check(query, "query", 0)
        if is_larger(query, MAX_QUERY_VALUES) or len(orjson.dumps(query)) > MAX_QUERY_CHARACTERS:
            most = f"{MAX_QUERY_VALUES} values or {MAX_QUERY_CHARACTERS} characters"
            raise Invalid(f"query has over {most}", at=_HINT)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the query, and what the host has of what it names."""
        query = _query(spec_obj)
        result = _evaluate(query, host_state)
        if any(result) if isinstance(result, list) else result:
            return None
        found = {name: _value(host_state, name) for name in sorted(set(_variables(query)))}
        values = ", ".join(f"{name} is {_shown(value)}" for name, value in found.items())
        asked = orjson.dumps(query).decode()
        return Refusal(f"{asked} does not hold: {values}".rstrip(": "), asked, found)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return that the query keeps the request away."""
        yield without_hint(spec_obj, "query")


def _compares(operator: Callable[[Any, Any], bool]) -> Callable[[Sequence[Any]], bool]:
    def holds(values: Sequence[Any]) -> bool:
        first, *others = values or (None,)
        return bool(others) and all(operator(first, other) for other in others)

    return holds


_OPERATORS: Mapping[str, Callable[[Sequence[Any]], Any]] = MappingProxyType(
    {
        "=": _compares(eq),
        "<": _compares(lt),
        ">": _compares(gt),
        "in": lambda values: len(values) > 1 and values[0] in values[1:],
        "<=": _compares(le),
        ">=": _compares(ge),
        "not": lambda values: [not value for value in values],
        "or": any,
        "and": all,
    }
)


def _query(spec_obj: RequestSpec) -> Any:
    """Return the condition, given as JSON text or as the list itself; None without one."""
    given = spec_obj.scheduler_hints.get("query") or None
    return _read(given[0]) if given and len(given) == 1 and isinstance(given[0], str) else given


@lru_cache
def _read(text: str) -> Any:
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError as wrong:
        raise Invalid(f"the query is not JSON: {wrong}", at=_HINT) from None


def _check(query: Any, place: str, depth: int) -> None:
    if not query:
        return
    if depth > MAX_QUERY_DEPTH:
        raise Invalid(f"the query is more than {MAX_QUERY_DEPTH} lists deep", at=_HINT)
    if not isinstance(query, list):
        raise Invalid(f"{place} is not a list of an operator and its operands", at=_HINT)
    operator, *values = query
    if not isinstance(operator, str) or operator not in _OPERATORS:
        known = " ".join(_OPERATORS)
        raise Invalid(f"{place}[0]: {operator!r} is not an operator ({known})", at=_HINT)
    for position, value in enumerate(values, start=1):
        if isinstance(value, list):
            _check(value, f"{place}[{position}]", depth + 1)


def _evaluate(query: Any, host_state: HostState) -> Any:
    """Return what a query comes to: whether it holds, or such answers in a list."""
    if not query:
        return True
    operator, *given = query
    values = (_cooked(value, host_state) for value in given)
    return _OPERATORS[operator]([value for value in values if value is not None])


def _cooked(value: Any, host_state: HostState) -> Any:
    if isinstance(value, list):
        return _evaluate(value, host_state)
    if isinstance(value, str) and value.startswith("$"):
        return _value(host_state, value)
    return None if value == "" else value


def _value(host_state: HostState, variable: str) -> Any:
    """Return what a variable stands for, or None where the host has nothing of the kind."""
    first, *rest = variable.removeprefix("$").split(".")
    known = first in HostState.__slots__ or first == "allocation_candidates"
    value = getattr(host_state, first, None) if known and not first.startswith("_") else None
    for name in rest:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise TypeError(f"{variable!r}: there is no {name!r} in {value!r}")
        value = value.get(name)
    return value


def _shown(value: Any) -> str:
    """Return a value as a reason shows it: the kind of what is neither text, number nor list."""
    plain = value is None or isinstance(value, str | int | float | list | tuple | dict)
    return repr(value) if plain else f"a {type(value).__name__}"


def _variables(query: Any) -> Iterator[str]:
    if isinstance(query, str) and query.startswith("$"):
        yield query
    for one in query[1:] if isinstance(query, list) else ():
        yield from _variables(one)
