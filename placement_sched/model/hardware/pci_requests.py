"""PCI devices that an instance requests, and the aliases by which flavors request them.

Sources: nova's documentation, "Attaching physical PCI devices to guests", "PCI tracking in
Placement", "Extra Specs" (``pci_passthrough:alias``, ``hw:pci_numa_affinity_policy``) and
"Configuration Options" (``[pci] alias``).
"""

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self
from uuid import UUID, uuid5

import os_resource_classes
import os_traits
from oslo_utils.strutils import bool_from_string

from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.limits import MAX_PCI_DEVICES, MAX_PCI_REQUESTS, MAX_PCI_SPEC_KEYS
from placement_sched.model.document import NovaObject
from placement_sched.model.flavor import Flavor

#: The keys of a spec about the provider, which placement has checked.
OF_PLACEMENT = frozenset({"resource_class", "traits", "rp_uuid", "rp_uuids"})
#: How near a PCI device must be to the instance's NUMA nodes.
AFFINITY_POLICIES = ("required", "legacy", "preferred", "socket")
_ID = re.compile("[0-9a-fA-F]{4}")
_ANY = re.compile(r".*", re.DOTALL)
#: The keys of an alias, and the values of each.
_VALUES = {
    "name": re.compile(r".{1,256}", re.DOTALL),
    "capability_type": re.compile("pci"),
    "product_id": _ID,
    "vendor_id": _ID,
    "device_type": re.compile("type-PCI|type-PF|type-VF"),
    "numa_policy": re.compile("|".join(AFFINITY_POLICIES)),
    "resource_class": _ANY,
    "traits": _ANY,
    "live_migratable": _ANY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A name for devices that match one of ``specs``, and how near they must be.

    A spec has ``vendor_id``, ``product_id``, ``dev_type``, ``capability_type``,
    ``live_migratable`` (``true`` or ``false``), ``resource_class`` and ``traits``, as far as the
    alias has them.
    """

    name: str
    numa_policy: str
    specs: tuple[Mapping[str, str], ...]


def aliases_of(texts: Sequence[str], *, in_placement: bool) -> Mapping[str, Alias]:
    """Return the aliases that the lines of ``[pci] alias`` describe, each a JSON object.

    Lines of one name are alternatives. With ``in_placement``, which is ``[filter_scheduler]
    pci_in_placement``, there may be none, and a resource class may replace the ids. Raises
    :class:`~placement_sched.errors.ConfigurationError` with the line and what is wrong.
    """
    aliases: dict[str, Alias] = {}
    for alias in map(_alias, texts):
        first = aliases.get(alias.name)
        aliases[alias.name] = alias if first is None else _joined(first, alias)
    for alias in aliases.values():
        _check(alias, in_placement=in_placement)
    return aliases


def _alias(text: str) -> Alias:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise _wrong(text, f"it is not valid JSON: {wrong}") from None
    if not isinstance(spec, dict):
        raise _wrong(text, "it is not a JSON object")
    for key, value in spec.items():
        if key not in _VALUES:
            raise _wrong(text, f"unknown key {key!r}; the keys are {', '.join(_VALUES)}")
        if not isinstance(value, str) or not _VALUES[key].fullmatch(value):
            raise _wrong(text, f"{key} cannot be {value!r}")
    if "name" not in spec:
        raise _wrong(text, "it has no name")
    return Alias(
        name=spec["name"].strip(),
        numa_policy=spec.get("numa_policy", "legacy"),
        specs=(MappingProxyType(dict(_device(text, spec))),),
    )


def _device(text: str, spec: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the properties of the device itself, under the names that pools of devices have."""
    for key, value in spec.items():
        if key == "live_migratable":
            try:
                yield key, str(bool_from_string(value, strict=True)).lower()
            except ValueError:
                raise _wrong(text, f"live_migratable: {value!r} is not a boolean") from None
        elif key not in ("name", "numa_policy"):
            yield "dev_type" if key == "device_type" else key, value


def _joined(first: Alias, other: Alias) -> Alias:
    types = {spec.get("dev_type") for alias in (first, other) for spec in alias.specs}
    if first.numa_policy != other.numa_policy:
        raise _wrong(first.name, "its lines differ in numa_policy")
    if len(types) > 1 or None in types:
        raise _wrong(first.name, "its lines must all have the same device_type")
    return replace(first, specs=first.specs + other.specs)


def _check(alias: Alias, *, in_placement: bool) -> None:
    if in_placement and len(alias.specs) > 1:
        raise _wrong(
            alias.name,
            "it has several lines, which [filter_scheduler] pci_in_placement does not allow; "
            "give the devices one resource_class",
        )
    for spec in alias.specs:
        by_class = in_placement and "resource_class" in spec
        if not by_class and not {"vendor_id", "product_id"} <= spec.keys():
            wanted = " or a resource_class" if in_placement else ""
            raise _wrong(alias.name, f"it must have vendor_id and product_id{wanted}")


def _wrong(alias: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"[pci] alias {alias!r}: {why}")


_KEY = "pci_passthrough:alias"
_WHERE = f"flavor extra spec {_KEY!r}"
#: Under which the ids of requests are made.
_IDS = UUID("5a0f3c52-8f6f-4a3b-9d0e-6f6b1f6f2c11")


@dataclass(frozen=True, kw_only=True)
class InstancePCIRequest(NovaObject):
    """``count`` devices, each of which matches one of ``spec``.

    ``requester_id`` is the port that they are for; then the alias name is None. ``numa_policy`` is
    how near they must be: ``required``, ``legacy``, ``preferred`` or ``socket``.
    """

    FLAVOR_ALIAS: ClassVar[int] = 0
    NEUTRON_PORT: ClassVar[int] = 1

    count: int
    spec: tuple[Mapping[str, Any], ...] = ()
    alias_name: str | None = None
    request_id: str | None = None
    requester_id: str | None = None
    numa_policy: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the request that a JSON object describes."""
        given: dict[str, Any] = {one.name: document.get(one.name) for one in fields(cls)}
        given["spec"] = tuple(given["spec"] or ())
        return cls(**given)

    @property
    def source(self) -> int:
        """Return what requests it: the flavor, by an alias, or a port, which has none."""
        return self.NEUTRON_PORT if self.alias_name is None else self.FLAVOR_ALIAS

    @cached_property
    def named(self) -> frozenset[str]:
        """Return the keys of its specs that the devices themselves must have."""
        return frozenset().union(*self.spec) - OF_PLACEMENT

    @cached_property
    def suits(self) -> dict[Hashable, bool]:
        """Return whether devices suit, by what they have under :attr:`named`.

        It is filled while pools are looked at: those of many hosts are alike.
        """
        return {}

    @cached_property
    def described(self) -> str:
        """Return what the devices must have, in words; the same for all hosts, and maybe long."""
        specs = (
            ", ".join(f"{key} {value}" for key, value in spec.items() if key not in OF_PLACEMENT)
            for spec in self.spec
        )
        return " or ".join(specs)

    def is_live_migratable(self) -> bool:
        """Return whether every device that matches can move with a running instance."""
        return all(spec.get("live_migratable") == "true" for spec in self.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePCIRequests(NovaObject):
    """Every PCI device that an instance requests; true even where there is none, as in nova."""

    requests: tuple[InstancePCIRequest, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the requests that a request's JSON object (contract, ``pci_requests``) gives.

        Raises :class:`Invalid` for more than are looked at on each host in a moment.
        """
        requests = tuple(map(InstancePCIRequest.from_document, document["requests"]))
        at = "$.request_spec.pci_requests.requests"
        if len(requests) > MAX_PCI_REQUESTS:
            raise Invalid(f"{len(requests)} PCI requests, at most {MAX_PCI_REQUESTS}", at=at)
        keys = sum(len(spec) or 1 for request in requests for spec in request.spec)
        if keys > MAX_PCI_SPEC_KEYS:
            raise Invalid(
                f"{keys} keys in the specs of PCI requests, at most {MAX_PCI_SPEC_KEYS}", at=at
            )
        return cls(requests=requests)


def pci_requests(
    flavor: Flavor, affinity_policy: str | None, aliases: Mapping[str, Alias]
) -> tuple[InstancePCIRequest, ...]:
    """Return a request for each ``alias:count`` of the flavor, in its order.

    The ``affinity_policy`` of flavor and image wins over those of the aliases. Ids are the same
    each time, so that a request sent again is the same. Raises :class:`Invalid`, naming the extra
    spec, for an alias that is not configured and for an invalid count.
    """
    value = flavor.extra_specs.get(_KEY)
    parts = [] if value is None else value.split(",")
    return tuple(_request(one, at, affinity_policy, aliases) for at, one in enumerate(parts))


def placement_terms(request: InstancePCIRequest) -> tuple[str, frozenset[str]]:
    """Return the resource class, and the traits, that placement is asked for one device.

    Names are normalized as placement requires. Raises :class:`Invalid` for a request of several
    kinds of device, or of one that is not identified.
    """
    if len(request.spec) != 1:
        raise Invalid(
            f"PCI request {request.alias_name!r} has {len(request.spec)} specs; a query to "
            "placement can have one only"
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
    upper = resource_class.upper()
    if upper not in os_resource_classes.STANDARDS and not os_resource_classes.is_custom(upper):
        upper = os_resource_classes.normalize_name(upper)
    standard, others = os_traits.check_traits(traits.split(",") if traits else [])
    return upper, frozenset(standard) | {
        name if os_traits.is_custom(name) else os_traits.normalize_name(name)
        for name in map(str.upper, others)
    }


def _request(
    part: str, position: int, affinity_policy: str | None, aliases: Mapping[str, Alias]
) -> InstancePCIRequest:
    name, colon, count = (piece.strip() for piece in part.partition(":"))
    if not colon:
        raise Invalid(f"{_WHERE}: expected alias:count, got {part!r}")
    alias = aliases.get(name)
    if alias is None:
        raise Invalid(f"{_WHERE}: [pci] alias does not configure {name!r}")
    try:
        number = int(count)
    except ValueError:
        raise Invalid(f"{_WHERE}: expected a number of devices, got {count!r}") from None
    if not 0 <= number <= MAX_PCI_DEVICES:
        raise Invalid(f"{_WHERE}: expected from 0 to {MAX_PCI_DEVICES} devices, got {number}")
    return InstancePCIRequest(
        count=number,
        spec=alias.specs,
        alias_name=name,
        request_id=str(uuid5(_IDS, f"{position} {name}")),
        numa_policy=affinity_policy or alias.numa_policy,
    )


def _text(request: InstancePCIRequest, key: str) -> str:
    value = request.spec[0].get(key)
    if not isinstance(value, str | None):
        raise Invalid(f"PCI request {request.alias_name!r}: {key} must be a string, not {value!r}")
    return value or ""
