"""The query string of a request: read, and held against what its route takes."""

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
    query: bytes, pairs: Pairs, route: Route, version: Version, *, most: int, minds_first: bool
) -> None:
    """Raise :class:`Invalid` for a query string that a route cannot be asked with.

    ``most`` is its greatest length in bytes. Of a repeated parameter the last value has to fit,
    and with ``minds_first`` the first one too.
    """
    _refuse_unreadable(query, most)
    schema = route.query.at(version) if route.query else None
    if schema is None:
        return
    last = dict(pairs)
    schema.check(last, _FAULT)
    if minds_first and len(pairs) != len(last):
        schema.check(dict(reversed(pairs)), _FAULT)


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
