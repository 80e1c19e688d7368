"""Flavors as the compute API writes them, and as it is given them, by microversion."""

from typing import Any
from urllib.parse import quote
from uuid import uuid4

from placement_sched.api.call import Call
from placement_sched.api.compute.booleans import yes_or_no
from placement_sched.api.compute.callers import may
from placement_sched.api.compute.microversions import (
    CONSISTENT,
    FLAVOR_DESCRIPTION,
    FLAVOR_EXTRA_SPECS,
)
from placement_sched.api.compute.schemas.parts import LARGEST
from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor

Json = dict[str, Any]

_PUBLIC = "os-flavor-access:is_public"
_EPHEMERAL = "OS-FLV-EXT-DATA:ephemeral"
_MOST_RXTX = 3.40282e38


def read(given: Json) -> Flavor:
    """Return the flavor that a body of its schema tells; one without an id gets a uuid.

    Raises :class:`Invalid` for what is written as text, but says no number or boolean that can be.
    """
    flavorid = given.get("id")
    return Flavor(
        flavorid=str(uuid4()) if flavorid is None else _text(flavorid),
        name=given["name"],
        memory_mb=_number(given, "ram", least=1),
        vcpus=_number(given, "vcpus", least=1),
        root_gb=_number(given, "disk"),
        ephemeral_gb=_number(given, _EPHEMERAL),
        swap=_number(given, "swap"),
        rxtx_factor=_factor(given),
        is_public=_yes(given.get(_PUBLIC, True)),
        description=given.get("description"),
    )


def shown_briefly(call: Call, flavor: Flavor) -> Json:
    """Return a flavor as lists without detail have it."""
    path = f"flavors/{quote(str(flavor.flavorid))}"
    document: Json = {
        "id": flavor.flavorid,
        "name": flavor.name,
        "links": [
            {"rel": "self", "href": f"{call.url}/v2.1/{path}"},
            {"rel": "bookmark", "href": f"{call.url}/{path}"},
        ],
    }
    if call.version.has(FLAVOR_DESCRIPTION):
        document["description"] = flavor.description
    return document


def shown(call: Call, flavor: Flavor) -> Json:
    """Return a flavor whole; its extra specs too where the caller may list them."""
    no_swap = 0 if call.version.has(CONSISTENT) else ""
    document = shown_briefly(call, flavor) | {
        "ram": flavor.memory_mb,
        "vcpus": flavor.vcpus,
        "disk": flavor.root_gb,
        _EPHEMERAL: flavor.ephemeral_gb,
        "swap": flavor.swap or no_swap,
        "rxtx_factor": flavor.rxtx_factor,
        "OS-FLV-DISABLED:disabled": flavor.disabled,
        _PUBLIC: flavor.is_public,
    }
    if call.version.has(FLAVOR_EXTRA_SPECS) and may(
        call, "os_compute_api:os-flavor-extra-specs:index"
    ):
        document["extra_specs"] = dict(flavor.extra_specs)
    return document


def _text(flavorid: str | float) -> str:
    return flavorid if isinstance(flavorid, str) else str(int(flavorid))


def _yes(given: str | bool) -> bool:
    told = given if isinstance(given, bool) else yes_or_no(given)
    if told is None:
        raise Invalid(f"'{given}' is neither yes nor no (at $.flavor['{_PUBLIC}'])")
    return told


def _number(given: Json, key: str, least: int = 0) -> int:
    """Return a number, 0 where it is left out; text is bounded here as the schema does numbers."""
    number = int(given.get(key, 0))
    if key in given and not least <= number <= LARGEST:
        raise Invalid(f"{number} is not from {least} to {LARGEST} (at $.flavor.{key})")
    return number


def _factor(given: Json) -> float:
    factor = float(given.get("rxtx_factor", 1.0))
    if not 0 < factor <= _MOST_RXTX:
        raise Invalid(f"{factor} is not above 0 and up to {_MOST_RXTX} (at $.flavor.rxtx_factor)")
    return factor
