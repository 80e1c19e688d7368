"""The PCI devices that a flavor asks for, by aliases.

Source: nova's documentation, "Attaching physical PCI devices to guests", "PCI tracking in
Placement" and "Extra Specs" (``pci_passthrough:alias``, ``hw:pci_numa_affinity_policy``).
"""

from collections.abc import Mapping
from uuid import UUID, uuid5

import os_resource_classes
import os_traits

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.pci_request import InstancePCIRequest
from placement_sched.scheduler.hardware.both import agreed_one_of
from placement_sched.scheduler.hardware.pci_alias import AFFINITY_POLICIES, Alias, aliases_of

__all__ = ["Alias", "aliases_of", "pci_affinity_policy", "pci_requests", "placement_terms"]

_KEY = "pci_passthrough:alias"
_WHERE = f"flavor extra spec {_KEY!r}"
#: Devices of one alias: no host has more, and each is a request group where placement knows them.
_MOST_DEVICES = 4096
#: Under which the ids of requests are made.
_IDS = UUID("5a0f3c52-8f6f-4a3b-9d0e-6f6b1f6f2c11")


def pci_affinity_policy(flavor: Flavor, image: Image) -> str | None:
    """Return how near PCI devices must be: ``required``, ``legacy``, ``preferred``, ``socket``.

    None where neither says it. Raises :class:`Invalid` for another value, or for two.
    """
    return agreed_one_of(flavor, image, "pci_numa_affinity_policy", AFFINITY_POLICIES)


def pci_requests(
    flavor: Flavor, image: Image, aliases: Mapping[str, Alias]
) -> tuple[InstancePCIRequest, ...]:
    """Return a request for each ``alias:count`` of the flavor, in its order.

    What flavor and image say of nearness counts before what the alias says. Ids are the same each
    time, so that a request sent again is the same. Raises :class:`Invalid` naming the extra spec
    for an alias that is not configured and for what is no count.
    """
    affinity = pci_affinity_policy(flavor, image)
    value = flavor.extra_specs.get(_KEY)
    if value is None:
        return ()
    return tuple(
        _request(part, position, affinity, aliases)
        for position, part in enumerate(value.split(","))
    )


def placement_terms(request: InstancePCIRequest) -> tuple[str, frozenset[str]]:
    """Return the resource class, and the traits, that placement is asked for one device.

    Names are made placement's where they are not. Raises :class:`Invalid` for a request of
    several kinds of device, or of one that nothing tells.
    """
    if len(request.spec) != 1:
        raise Invalid(
            f"PCI request {request.alias_name!r} has {len(request.spec)} specs; placement can be "
            "asked for one only"
        )
    named, vendor, product, traits = (
        _text(request, key) for key in ("resource_class", "vendor_id", "product_id", "traits")
    )
    if not named and not (vendor and product):
        raise Invalid(
            f"PCI request {request.alias_name!r} has neither resource_class nor vendor_id and "
            "product_id"
        )
    resource_class = named or f"CUSTOM_PCI_{vendor}_{product}"
    return _class_name(resource_class), _trait_names(traits.split(",") if traits else [])


def _request(
    part: str, position: int, affinity: str | None, aliases: Mapping[str, Alias]
) -> InstancePCIRequest:
    """Return the request of one ``alias:count``."""
    name, colon, count = (piece.strip() for piece in part.partition(":"))
    if not colon:
        raise Invalid(f"{_WHERE}: expected alias:count, got {part!r}")
    alias = aliases.get(name)
    if alias is None:
        raise Invalid(f"{_WHERE}: [pci] alias configures no {name!r}")
    return InstancePCIRequest(
        count=_count(count),
        spec=alias.specs,
        alias_name=name,
        request_id=str(uuid5(_IDS, f"{position} {name}")),
        numa_policy=affinity or alias.numa_policy,
    )


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise Invalid(f"{_WHERE}: expected a number of devices, got {text!r}") from None
    if not 0 <= count <= _MOST_DEVICES:
        raise Invalid(f"{_WHERE}: expected from 0 to {_MOST_DEVICES} devices, got {count}")
    return count


def _text(request: InstancePCIRequest, key: str) -> str:
    """Return what the only spec of a request says under a key; empty where it says nothing."""
    value = request.spec[0].get(key)
    if not isinstance(value, str | None):
        raise Invalid(f"PCI request {request.alias_name!r}: {key} must be a text, not {value!r}")
    return value or ""


def _class_name(name: str) -> str:
    upper = name.upper()
    if upper in os_resource_classes.STANDARDS or os_resource_classes.is_custom(upper):
        return upper
    return str(os_resource_classes.normalize_name(upper))


def _trait_names(names: list[str]) -> frozenset[str]:
    standard, others = os_traits.check_traits(names)
    return frozenset(standard) | {
        upper if os_traits.is_custom(upper) else os_traits.normalize_name(upper)
        for upper in (name.upper() for name in others)
    }
