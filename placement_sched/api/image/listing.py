"""Lists of images: what a query string asks for, and the links between pages.

Source: Image API reference, "List images".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from placement_sched.api.call import Call
from placement_sched.errors import Invalid
from placement_sched.model.image_search import NEWEST_FIRST, SORT_KEYS, Bound, ImageSearch
from placement_sched.model.inventory import MAX_INT
from placement_sched.model.shape import moment, read
from placement_sched.model.stored_image import ACCEPTED, MEMBER_STATUSES, VISIBILITIES, Viewer

#: Images to a page, where no limit is given, and where too high a one is (glance's defaults).
PAGE = 25
LARGEST_PAGE = 1000

_NO_FILTERS = frozenset({"limit", "marker", "sort", "sort_key", "sort_dir"})
_LINKS = frozenset({"self", "file", "schema", "first", "next", "locations", "direct_url", "tags"})
#: Attributes of which ``in:a,b`` names several values.
_SEVERAL = ("id", "name", "status", "container_format", "disk_format")
_NUMBERS = ("size", "virtual_size", "min_ram", "min_disk")
_OPERATORS = ("gt", "gte", "eq", "neq", "lt", "lte")
_MOST_BYTES = 2**63 - 1
_WORDS = {"true": True, "false": False}
_LOOSE_WORDS = {**_WORDS, **dict.fromkeys(("1", "yes", "on", "t", "y"), True)}
_LOOSE_WORDS |= dict.fromkeys(("0", "no", "off", "f", "n"), False)


def question_of(call: Call, viewer: Viewer) -> ImageSearch:
    """Return the question that a query string asks; raises :class:`Invalid` naming what is wrong.

    It asks for one image more than belong to the page, by which to know whether another follows.
    """
    given = {name: value for name, value in call.query if name not in _NO_FILTERS | {"tag"}}
    if wrong := sorted(_LINKS & given.keys()):
        raise Invalid(f"Images cannot be filtered by {wrong[0]}.")
    anyof: dict[str, tuple[Any, ...]] = {"os_hidden": (False,)}
    bounds: list[Bound] = []
    properties: dict[str, str] = {}
    for name, value in given.items():
        if name in _FILTERS:
            anyof[name] = _FILTERS[name](name, value)
        elif bound := _bound(name, value):
            bounds.append(bound)
        elif name not in _CHOICES:
            properties[name] = value
    marker = call.value("marker")
    return ImageSearch(
        viewer=viewer,
        visibility=_choice(given, "visibility", None),
        member_status=_member_status(given),
        anyof=anyof,
        bounds=tuple(bounds),
        tags=frozenset(call.values("tag")),
        properties=properties,
        order=_order(call),
        marker=None if marker is None else marker.lower(),
        limit=limit_of(call) + 1,
    )


def limit_of(call: Call) -> int:
    """Return how many images belong to a page."""
    value = call.value("limit")
    return PAGE if value is None else min(_number("limit", value, _MOST_BYTES), LARGEST_PAGE)


def links_of(call: Call, last: str | None) -> dict[str, str]:
    """Return the links to the first page and, behind the image ``last``, to the next."""
    rest = [pair for pair in call.query if pair[0] != "marker"]
    links = {"first": _link(rest)}
    if last is not None:
        links["next"] = _link([*rest, ("marker", last)])
    return links


def _link(pairs: Sequence[tuple[str, str]]) -> str:
    return f"/v2/images?{urlencode(pairs)}" if pairs else "/v2/images"


def _choice(given: Mapping[str, str], name: str, default: str | None) -> str | None:
    value = given.get(name, default)
    if value is not None and value not in _CHOICES[name]:
        raise Invalid(f"Invalid {name} value: {value!r} is not one of {', '.join(_CHOICES[name])}")
    return value


def _member_status(given: Mapping[str, str]) -> str | None:
    status = _choice(given, "member_status", ACCEPTED)
    return None if status == "all" else status


_CHOICES: Mapping[str, Sequence[str]] = MappingProxyType(
    {"visibility": (*VISIBILITIES, "all"), "member_status": (*MEMBER_STATUSES, "all")}
)


def _text(name: str, value: str) -> tuple[str, ...]:
    """Return the values that a filter names, several where its attribute may have ``in:``."""
    if name not in _SEVERAL or not value.startswith("in:"):
        values = [value]
    else:
        values = _listed(name, value.removeprefix("in:"))
    return tuple(each.lower() if name == "id" else each for each in values)


def _listed(name: str, value: str) -> list[str]:
    """Return the values of a list; one with a comma in it stands in quotation marks."""
    if not re.fullmatch(r'(?:"[^"]+"|[^",]+)(?:,(?:"[^"]+"|[^",]+))*', value, re.DOTALL):
        raise Invalid(
            f"Invalid filter value for {name}: {value!r} is no list of values, parted by commas "
            "and in quotation marks where they have some"
        )
    return [found.strip('"') for found in re.findall(r'"[^"]+"|[^",]+', value, re.DOTALL)]


def _whole(name: str, value: str) -> tuple[int, ...]:
    return (_number(name, value, _MOST_BYTES if "size" in name else MAX_INT),)


def _number(name: str, value: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", value, re.ASCII) or int(value) > most:
        raise Invalid(f"{name} param must be an integer from 0 to {most}, not {value!r}")
    return int(value)


def _protected(name: str, value: str) -> tuple[bool, ...]:
    return (_word(name, value, _WORDS),)


def _hidden(name: str, value: str) -> tuple[bool, ...]:
    # Clients send what their language calls true.
    return (_word(name, value.lower(), _LOOSE_WORDS),)


def _word(name: str, value: str, words: Mapping[str, bool]) -> bool:
    if value not in words:
        raise Invalid(f"Invalid value {value!r} for {name}: it is either true or false")
    return words[value]


_FILTERS: Mapping[str, Callable[[str, str], tuple[Any, ...]]] = MappingProxyType(
    {
        **dict.fromkeys((*_SEVERAL, "owner"), _text),
        **dict.fromkeys(_NUMBERS, _whole),
        "protected": _protected,
        "os_hidden": _hidden,
    }
)


def _bound(name: str, value: str) -> Bound | None:
    """Return the comparison that a filter is, or None."""
    if name in {"created_at", "updated_at"}:
        operator, colon, rest = value.partition(":")
        if not colon or operator not in _OPERATORS:
            operator, rest = "eq", value
        return Bound(name, operator, _moment(name, rest))
    attribute, _, end = name.rpartition("_")
    if attribute in _NUMBERS and end in {"min", "max"}:
        return Bound(attribute, "gte" if end == "min" else "lte", *_whole(name, value))
    return None


def _moment(name: str, value: str) -> datetime:
    # In a query a plus sign that is not escaped is a blank.
    return read(moment, re.sub(r" (\d\d:?\d\d)$", r"+\1", value), name)


def _order(call: Call) -> tuple[tuple[str, bool], ...]:
    """Return the order asked for, made definite by the time of creation and the id."""
    asked = _sort_pairs(call)
    for key, direction in asked:
        if key not in SORT_KEYS:
            raise Invalid(f"Invalid sort key: {key}. It must be one of {', '.join(SORT_KEYS)}")
        if direction not in {"asc", "desc"}:
            raise Invalid(f"Invalid sort direction: {direction}. It must be asc or desc")
    order = {key: direction == "desc" for key, direction in asked}
    return tuple((order | {k: d for k, d in NEWEST_FIRST if k not in order}).items())


def _sort_pairs(call: Call) -> list[tuple[str, str]]:
    sort, keys, directions = (call.values(name) for name in ("sort", "sort_key", "sort_dir"))
    if sort and (keys or directions):
        raise Invalid("The sort parameter cannot be used with sort_key and sort_dir.")
    if sort:
        parts = (part.strip().partition(":") for part in ",".join(sort).split(","))
        return [(key, direction or "desc") for key, _, direction in parts]
    if len(directions) > 1 and len(directions) != len(keys):
        raise Invalid("The numbers of sort_key and sort_dir parameters do not match.")
    direction = directions[0] if directions else "desc"
    each = directions if len(directions) > 1 else [direction] * len(keys)
    # A direction without a key is one of the usual order.
    return list(zip(keys, each, strict=True)) or [("created_at", direction)]
