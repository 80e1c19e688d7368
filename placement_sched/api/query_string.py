"""The query string of a request: read, and held against what its route takes."""

from collections import Counter
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote_to_bytes

from placement_sched.api.microversion import Version
from placement_sched.api.route import Route
from placement_sched.errors import Invalid

Pairs = tuple[tuple[str, str], ...]

_FAULT = "Invalid query string parameters"


def pairs_of(query: bytes) -> Pairs:
    """Return names and values in the order sent; what is not in UTF-8 is no longer itself."""
    if not query:
        return ()
    return tuple(parse_qsl(query.decode(errors="replace"), keep_blank_values=True))


def check(
    query: bytes, pairs: Pairs, route: Route, version: Version, *, most: int, every_value: bool
) -> None:
    """Raise :class:`Invalid` for a query string that a route cannot be asked with.

    ``most`` is its greatest length in bytes. Of a repeated parameter the last value has to fit the
    schema, and with ``every_value`` each of the others too: handlers may then read them all.
    """
    _refuse_unreadable(query, most)
    schema = route.query.at(version) if route.query else None
    if schema is None:
        return
    last = dict(pairs)
    schema.check(last, _FAULT)
    if every_value and len(pairs) != len(last):
        required = {name: last[name] for name in schema.definition.get("required", ())}
        for some in _rounds(pairs):
            schema.check(required | some, _FAULT)


def _rounds(pairs: Pairs) -> Iterator[dict[str, str]]:
    """Yield the first value of each parameter, then the second value of those that have one, ..."""
    seen: Counter[str] = Counter()
    rounds: list[dict[str, str]] = []
    for name, value in pairs:
        if seen[name] == len(rounds):
            rounds.append({})
        rounds[seen[name]][name] = value
        seen[name] += 1
    yield from rounds


def _refuse_unreadable(query: bytes, most: int) -> None:
    """Raise :class:`Invalid` for a query string that no database could be asked with."""
    if len(query) > most:
        raise Invalid(
            f"{_FAULT}: {len(query)} bytes, where [api] max_query_string_size allows {most}"
        )
    try:
        text = unquote_to_bytes(query).decode()
    except UnicodeDecodeError:
        raise Invalid(f"{_FAULT}: they are not in UTF-8") from None
    if "\0" in text:
        raise Invalid(f"{_FAULT}: they have a NUL character")
