# SPDX-License-Identifier: Apache-2.0
"""JsonFilter: filter by a condition in JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import eq, ge, gt, le, lt
from types import MappingProxyType
from typing import Any

import orjson

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_QUERY_CHARACTERS, MAX_QUERY_DEPTH, MAX_QUERY_VALUES
from placement_sched.model.document import is_larger
from placement_sched.model.rejection import SuggestedChanges
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Rejection,
    RequestSpec,
    drop_hint,
)
from placement_sched.scheduler.filters.utils import HOST_ATTRIBUTES

_HINT = "$.request_spec.scheduler_hints.query"


class JsonFilter(BaseHostFilter):
    """Filter for hosts that satisfy the condition of the hint ``query``.

    The condition is a JSON list of an operator (``=``, ``<``, ``>``, ``in``, ``<=``, ``>=``,
    ``not``, ``or``, ``and``) and its operands, which may be lists of the same form::

        ["and", [">=", "$free_ram_mb", 1024], ["not", ["in", "$host", "cn1", "cn2"]]]

    ``$free_ram_mb`` is an attribute of the host, and ``$stats.num_instances`` a key of an
    attribute. A comparison is true if it holds between the first operand and each further operand.
    ``in`` is true if the first operand equals any further operand. Attributes that the host lacks
    are dropped, and a comparison of fewer than two operands is false. ``not`` negates each of its
    operands, and is true if any result is true. Values that cannot be compared, such as text with a
    number, are an error. The filter works as in nova 18.
    """

    def check(self, spec_obj: RequestSpec) -> None:
        query = _get_query(spec_obj)
        _validate(query, "query", 0)
        if is_larger(query, MAX_QUERY_VALUES) or len(orjson.dumps(query)) > MAX_QUERY_CHARACTERS:
            maximum = f"{MAX_QUERY_VALUES} values or {MAX_QUERY_CHARACTERS} characters"
            raise Invalid(f"query has over {maximum}", json_path=_HINT)

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        query = _get_query(spec_obj)
        result = _evaluate(query, host_state)
        if any(result) if isinstance(result, list) else result:
            return None
        names = sorted(set(_list_variables(query)))
        attributes = {name: _format_value(_read_attribute(host_state, name)) for name in names}
        text = orjson.dumps(query).decode()
        return Rejection(kind="query", requested=text, values={"attributes": attributes})

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        yield drop_hint(spec_obj, "query")


def _build_comparison(operator: Callable[[Any, Any], bool]) -> Callable[[Sequence[Any]], bool]:
    def compare(values: Sequence[Any]) -> bool:
        first, *operands = values or (None,)
        return bool(operands) and all(operator(first, operand) for operand in operands)

    return compare


_OPERATORS: Mapping[str, Callable[[Sequence[Any]], Any]] = MappingProxyType(
    {
        "=": _build_comparison(eq),
        "<": _build_comparison(lt),
        ">": _build_comparison(gt),
        "in": lambda values: len(values) > 1 and values[0] in values[1:],
        "<=": _build_comparison(le),
        ">=": _build_comparison(ge),
        "not": lambda values: [not value for value in values],
        "or": any,
        "and": all,
    }
)


def _get_query(spec_obj: RequestSpec) -> Any:
    value = spec_obj.scheduler_hints.get("query") or []
    is_text = len(value) == 1 and isinstance(value[0], str)
    return spec_obj.read_once(value[0], _parse) if is_text else value


def _parse(text: str) -> Any:
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError as error:
        raise Invalid(f"the query is not JSON: {error}", json_path=_HINT) from None


def _validate(query: Any, place: str, depth: int) -> None:
    if not query:
        return
    if depth > MAX_QUERY_DEPTH:
        raise Invalid(f"the query is more than {MAX_QUERY_DEPTH} lists deep", json_path=_HINT)
    if not isinstance(query, list):
        raise Invalid(f"{place} is not a list of an operator and its operands", json_path=_HINT)
    operator, *values = query
    if not isinstance(operator, str) or operator not in _OPERATORS:
        text = f"{place}[0]: {operator!r} is not an operator ({' '.join(_OPERATORS)})"
        raise Invalid(text, json_path=_HINT)
    for position, value in enumerate(values, start=1):
        if isinstance(value, list):
            _validate(value, f"{place}[{position}]", depth + 1)


def _evaluate(query: Any, host_state: HostState) -> Any:
    """Evaluate a condition on a host, with a list of results for ``not``."""
    if not query:
        return True
    operator, *operands = query
    values = (_resolve(value, host_state) for value in operands)
    return _OPERATORS[operator]([value for value in values if value is not None])


def _resolve(value: Any, host_state: HostState) -> Any:
    if isinstance(value, list):
        return _evaluate(value, host_state)
    if isinstance(value, str) and value.startswith("$"):
        return _read_attribute(host_state, value)
    return None if value == "" else value


def _read_attribute(host_state: HostState, variable: str) -> Any:
    first, *names = variable.removeprefix("$").split(".")
    is_attribute = first in HOST_ATTRIBUTES and not first.startswith("_")
    value = getattr(host_state, first, None) if is_attribute else None
    for name in names:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise TypeError(f"{variable!r}: there is no {name!r} in {value!r}")
        value = value.get(name)
    return value


def _format_value(value: Any) -> str | float:
    """Return a number, the text of another value, or the type of an object."""
    is_plain = value is None or isinstance(value, str | int | float | list | tuple | dict)
    text = repr(value) if is_plain else f"a {type(value).__name__}"
    return value if isinstance(value, int | float) else text


def _list_variables(query: Any) -> Iterator[str]:
    if isinstance(query, str) and query.startswith("$"):
        yield query
    for operand in query[1:] if isinstance(query, list) else ():
        yield from _list_variables(operand)
