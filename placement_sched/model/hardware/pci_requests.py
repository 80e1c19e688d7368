# SPDX-License-Identifier: Apache-2.0
"""PCI requests of instances, and the PCI aliases that flavors name.

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

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_PCI_DEVICES, MAX_PCI_REQUESTS, MAX_PCI_SPEC_KEYS
from placement_sched.model.document import NovaObject
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import CHOICES

#: The keys of a spec that placement checks. The comparison with pools ignores them.
PLACEMENT_KEYS = frozenset({"resource_class", "traits", "rp_uuid", "rp_uuids"})
_ID = re.compile("[0-9a-fA-F]{4}")
_ANY = re.compile(r".*", re.DOTALL)
#: The keys of an alias and the patterns of their values.
_VALUES = {
    "name": re.compile(r".{1,256}", re.DOTALL),
    "capability_type": re.compile("pci"),
    "product_id": _ID,
    "vendor_id": _ID,
    "device_type": re.compile("type-PCI|type-PF|type-VF"),
    "numa_policy": re.compile("|".join(CHOICES["hw_pci_numa_affinity_policy"])),
    "resource_class": _ANY,
    "traits": _ANY,
    "live_migratable": _ANY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A PCI alias: a name for devices that match any of ``specs``.

    ``numa_policy`` is the NUMA affinity policy. A spec may have ``vendor_id``, ``product_id``,
    ``dev_type``, ``capability_type``, ``live_migratable`` (``true`` or ``false``),
    ``resource_class`` and ``traits``. An alias with a ``problem`` cannot be used.
    """

    name: str
    numa_policy: str = "legacy"
    specs: tuple[Mapping[str, str], ...] = ()
    problem: str | None = None


def parse_aliases(texts: Sequence[str], *, in_placement: bool) -> Mapping[str, Alias]:
    """Parse the lines of ``[pci] alias``, each a JSON object.

    Lines with the same name are alternatives. ``in_placement`` is ``[filter_scheduler]
    pci_in_placement``. If it is true, alternatives are not allowed, and each alias has a resource
    class, or vendor and product id. As in nova, an invalid line fails only requests that name its
    alias: the alias then has a ``problem``. A line without a readable name is its own name.
    """
    aliases: dict[str, Alias] = {}
    for alias in map(_parse_alias, texts):
        first = aliases.get(alias.name)
        aliases[alias.name] = alias if first is None else _merge_aliases(first, alias)
    return {name: _check_alias(alias, in_placement=in_placement) for name, alias in aliases.items()}


def list_alias_problems(aliases: Mapping[str, Alias]) -> list[str]:
    """Return a warning for each alias that cannot be used."""
    return [
        f"[pci] alias {alias.name!r}: {alias.problem}"
        for alias in aliases.values()
        if alias.problem is not None
    ]


def _parse_alias(text: str) -> Alias:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Alias(name=text, problem=f"it is not valid JSON: {error}")
    if not isinstance(spec, dict):
        return Alias(name=text, problem="it is not a JSON object")
    name = spec.get("name")
    if not isinstance(name, str) or not _VALUES["name"].fullmatch(name):
        problem = f"name cannot be {name!r}" if "name" in spec else "it has no name"
        return Alias(name=text, problem=problem)
    for key, value in spec.items():
        if key not in _VALUES:
            problem = f"unknown key {key!r}. The keys are {', '.join(_VALUES)}"
            return Alias(name=name.strip(), problem=problem)
        if not isinstance(value, str) or not _VALUES[key].fullmatch(value):
            return Alias(name=name.strip(), problem=f"{key} cannot be {value!r}")
    try:
        specs = (MappingProxyType(dict(_iterate_device_properties(spec))),)
    except ValueError as error:
        return Alias(name=name.strip(), problem=str(error))
    policy = spec.get("numa_policy", "legacy")
    return Alias(name=name.strip(), numa_policy=policy, specs=specs)


def _iterate_device_properties(spec: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the device properties of an alias, under their names in pools."""
    for key, value in spec.items():
        if key == "live_migratable":
            try:
                yield key, str(bool_from_string(value, strict=True)).lower()
            except ValueError:
                raise ValueError(f"live_migratable: {value!r} is not a boolean") from None
        elif key not in ("name", "numa_policy"):
            yield "dev_type" if key == "device_type" else key, value


def _merge_aliases(first: Alias, second: Alias) -> Alias:
    types = {spec.get("dev_type") for alias in (first, second) for spec in alias.specs}
    problem = first.problem or second.problem
    if problem is None and first.numa_policy != second.numa_policy:
        problem = "its lines differ in numa_policy"
    if problem is None and (len(types) > 1 or None in types):
        problem = "its lines must all have the same device_type"
    return replace(first, specs=first.specs + second.specs, problem=problem)


def _check_alias(alias: Alias, *, in_placement: bool) -> Alias:
    """Return the alias, with a problem if it does not select devices.

    Nova until 2025.1 accepts aliases with a part of the ids, or with a device type only.
    """
    if alias.problem is not None:
        return alias
    problem, ids, keys = None, {"vendor_id", "product_id"}, alias.specs[0].keys()
    if not in_placement:
        if not all((ids | {"dev_type"}) & spec.keys() for spec in alias.specs):
            problem = "it must have vendor_id and product_id, or a device_type"
    elif len(alias.specs) > 1:
        problem = (
            "it has several lines, which [filter_scheduler] pci_in_placement does not allow. "
            "Give the devices one resource_class"
        )
    elif "resource_class" not in keys and not ids <= keys:
        problem = "it must have vendor_id and product_id or a resource_class"
    return replace(alias, problem=problem)


_KEY = "pci_passthrough:alias"
_SOURCE = f"flavor extra spec {_KEY!r}"
#: The namespace of generated request ids.
_ID_NAMESPACE = UUID("5a0f3c52-8f6f-4a3b-9d0e-6f6b1f6f2c11")


@dataclass(frozen=True, kw_only=True)
class InstancePCIRequest(NovaObject):
    """A request for ``count`` devices, each matching any of ``spec``.

    A request for a port has the id of the port as ``requester_id`` and no ``alias_name``.
    ``numa_policy`` is ``required``, ``legacy``, ``preferred`` or ``socket``.
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
        """Read a PCI request from its JSON object."""
        values: dict[str, Any] = {item.name: document.get(item.name) for item in fields(cls)}
        values["spec"] = tuple(values["spec"] or ())
        return cls(**values)

    @property
    def source(self) -> int:
        """Return the source of the request: ``FLAVOR_ALIAS`` or ``NEUTRON_PORT``."""
        return self.NEUTRON_PORT if self.alias_name is None else self.FLAVOR_ALIAS

    @cached_property
    def compared_keys(self) -> frozenset[str]:
        """Return the keys of the specs that are compared with device pools."""
        return frozenset().union(*self.spec) - PLACEMENT_KEYS

    @cached_property
    def match_cache(self) -> dict[Hashable, bool]:
        """Return the cache of comparisons: whether devices match the request.

        A key is the kind of a pool, or the pool's values of :attr:`compared_keys`. The cache is
        filled while pools are compared. It saves time, because many hosts have similar pools.
        """
        return {}

    @cached_property
    def compared_specs(self) -> list[dict[str, str]]:
        """Return the requested properties of the devices, for rejections."""
        return [
            {key: str(value) for key, value in spec.items() if key not in PLACEMENT_KEYS}
            for spec in self.spec
        ]

    def is_live_migratable(self) -> bool:
        """Return whether all specs require devices that can be live-migrated."""
        return all(spec.get("live_migratable") == "true" for spec in self.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePCIRequests(NovaObject):
    """All PCI requests of an instance.

    As in nova, even an object without requests is true in conditions.
    """

    requests: tuple[InstancePCIRequest, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read the requests from ``pci_requests`` of a request spec.

        Raises :class:`Invalid` for more than :data:`MAX_PCI_REQUESTS` requests, or more than
        :data:`MAX_PCI_SPEC_KEYS` keys in their specs.
        """
        requests = tuple(map(InstancePCIRequest.from_document, document["requests"]))
        json_path = "$.request_spec.pci_requests.requests"
        if len(requests) > MAX_PCI_REQUESTS:
            raise Invalid(
                f"the request has {len(requests)} PCI requests, more than {MAX_PCI_REQUESTS}",
                json_path=json_path,
            )
        keys = sum(len(spec) or 1 for request in requests for spec in request.spec)
        if keys > MAX_PCI_SPEC_KEYS:
            raise Invalid(
                f"the request has {keys} keys in the specs of PCI requests, more than "
                f"{MAX_PCI_SPEC_KEYS}",
                json_path=json_path,
            )
        return cls(requests=requests)


def build_pci_requests(
    flavor: Flavor, affinity_policy: str | None, aliases: Mapping[str, Alias]
) -> tuple[InstancePCIRequest, ...]:
    """Build a PCI request from each ``alias:count`` of the flavor, in order.

    ``affinity_policy`` is the policy of flavor and image, which overrides the policies of aliases.
    Ids are deterministic, so that a repeated request is equal. Raises :class:`Invalid` for an alias
    that is not configured and for an invalid count.
    """
    value = flavor.extra_specs.get(_KEY)
    parts = [] if value is None else value.split(",")
    return tuple(
        _build_request(part, index, affinity_policy, aliases) for index, part in enumerate(parts)
    )


def build_placement_terms(request: InstancePCIRequest) -> tuple[str, frozenset[str]]:
    """Return the resource class and the traits of a device in placement.

    Names are normalized as placement requires. Raises :class:`Invalid` unless the request has a
    single spec, with a resource class or with vendor and product id.
    """
    if len(request.spec) != 1:
        raise Invalid(
            f"PCI request {request.alias_name!r} has {len(request.spec)} specs, but a query to "
            "placement supports a single spec"
        )
    texts = {}
    for key in ("resource_class", "vendor_id", "product_id", "traits"):
        value = request.spec[0].get(key)
        if not isinstance(value, str | None):
            problem = f"{key} must be a string, not {value!r}"
            raise Invalid(f"PCI request {request.alias_name!r}: {problem}")
        texts[key] = value or ""
    class_name, vendor, product, traits = texts.values()
    if not class_name and not (vendor and product):
        raise Invalid(
            f"PCI request {request.alias_name!r} has neither resource_class nor vendor_id and "
            "product_id"
        )
    resource_class = class_name or f"CUSTOM_PCI_{vendor}_{product}"
    upper = resource_class.upper()
    if upper not in os_resource_classes.STANDARDS and not os_resource_classes.is_custom(upper):
        upper = os_resource_classes.normalize_name(upper)
    standard, custom = os_traits.check_traits(traits.split(",") if traits else [])
    return upper, frozenset(standard) | {
        name if os_traits.is_custom(name) else os_traits.normalize_name(name)
        for name in map(str.upper, custom)
    }


def _build_request(
    part: str, position: int, affinity_policy: str | None, aliases: Mapping[str, Alias]
) -> InstancePCIRequest:
    name, colon, count = (piece.strip() for piece in part.partition(":"))
    if not colon:
        raise Invalid(f"{_SOURCE}: expected alias:count, got {part!r}")
    alias = aliases.get(name)
    if alias is None:
        raise Invalid(f"{_SOURCE}: [pci] alias does not configure {name!r}")
    if alias.problem is not None:
        raise Invalid(f"{_SOURCE}: [pci] alias {name!r} cannot be used: {alias.problem}")
    try:
        number = int(count)
    except ValueError:
        raise Invalid(f"{_SOURCE}: expected a number of devices, got {count!r}") from None
    if not 0 <= number <= MAX_PCI_DEVICES:
        raise Invalid(f"{_SOURCE}: expected from 0 to {MAX_PCI_DEVICES} devices, got {number}")
    return InstancePCIRequest(
        count=number,
        spec=alias.specs,
        alias_name=name,
        request_id=str(uuid5(_ID_NAMESPACE, f"{position} {name}")),
        numa_policy=affinity_policy or alias.numa_policy,
    )
