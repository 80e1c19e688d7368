"""Flavors and images given whole, as ``PUT /scheduler/v1/instances`` takes them for a record."""

import math
import re
from typing import Any

from placement_sched.model.shape import (
    Misfit,
    Shape,
    boolean,
    integer,
    list_of,
    mapping_of,
    nullable,
    record,
    text,
)

Json = dict[str, Any]

#: What fits into JSON as it is kept.
_LEAST, _MOST = -(2**63), 2**64 - 1
#: What no database keeps, and halves of characters, which no encoding can write.
_NEVER = re.compile("[\x00\ud800-\udfff]")
#: The properties that nova keeps as lists of objects, under their names of then and now.
_LISTS = frozenset(("block_device_mapping", "img_block_device_mapping", "img_mappings", "mappings"))

_any_integer = integer(_LEAST, _MOST)
_amount = integer()


def _any_text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit(f"{value!r} is not a string")
    if _NEVER.search(value):
        raise Misfit("it has characters that no database keeps")
    return value


def _number(value: Any) -> float:
    """Return a number as it is: 1 and 1.0 are other texts where a plugin reads them."""
    if type(value) is int:
        return _any_integer(value)
    if type(value) is not float or not math.isfinite(value):
        raise Misfit(f"{value!r} is not a number")
    return value


def _key(value: Any) -> str:
    found = _any_text(value)
    if not 0 < len(found) <= 255:
        raise Misfit(f"it has {len(found)} characters, not 1 to 255")
    return found


def _id(value: Any) -> int | str:
    return _any_text(value) if isinstance(value, str) else _any_integer(value)


def _swap(value: Any) -> int | str:
    # The compute API writes no swap as "".
    return "" if value == "" else _amount(value)


def _spec(value: Any) -> float | str:
    return _any_text(value) if isinstance(value, str) else _number(value)


def _plain(value: Any) -> Any:
    """Return what a property may be that is no list: a text, a number, a boolean or null."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, list | dict):
        raise Misfit(f"a {'list' if isinstance(value, list) else 'mapping'} cannot be a property")
    return _spec(value)


def _inner(value: Any) -> Any:
    """Return what may stand in an object of a list, which is all that JSON has."""
    if isinstance(value, dict):
        return mapping_of(_any_text, _inner)(value)
    return list(list_of(_inner)(value)) if isinstance(value, list) else _plain(value)


def _objects(value: Any) -> list[Json]:
    return list(list_of(mapping_of(_any_text, _inner))(value))


def _properties(value: Any) -> Json:
    found: Json = mapping_of(_key, lambda one: one)(value)
    for name, one in found.items():
        inner: Shape[Any] = nullable(_objects) if name in _LISTS else _plain
        try:
            found[name] = inner(one)
        except Misfit as misfit:
            raise misfit.under(name) from None
    return found


def _tags(value: Any) -> list[str]:
    return list(list_of(text())(value))


_short = nullable(text())
_size = nullable(integer(0, _MOST))

#: A flavor by nova's names: memory and swap in MB, disks in GB.
FLAVOR: Shape[Json] = record(
    {
        "id": nullable(_id),
        "flavorid": _short,
        "name": text(),
        **dict.fromkeys(("vcpus", "memory_mb", "root_gb", "ephemeral_gb"), _amount),
        "swap": _swap,
        "extra_specs": nullable(mapping_of(_key, _spec)),
        "rxtx_factor": nullable(_number),
        "vcpu_weight": nullable(_any_integer),
        "disabled": boolean,
        "is_public": boolean,
        "description": nullable(_any_text),
    }
)
#: An image by glance's names, its properties as they are kept.
IMAGE: Shape[Json] = record(
    {
        **dict.fromkeys(("id", "name", "status", "visibility", "owner"), _short),
        **dict.fromkeys(("disk_format", "container_format"), _short),
        **dict.fromkeys(("size", "virtual_size"), _size),
        **dict.fromkeys(("min_ram", "min_disk"), nullable(_amount)),
        "tags": nullable(_tags),
        "properties": nullable(_properties),
    }
)
