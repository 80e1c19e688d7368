# SPDX-License-Identifier: Apache-2.0
"""Request groups from flavor, image and requested resources.

Source: nova's documentation, "Flavors" and "Extra Specs" (``resources:``, ``trait:``,
``group_policy``), and the Placement documentation, "Granular Resource Requests".
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import os_resource_classes
from oslo_config import cfg

from placement_sched.config.settings import Settings
from placement_sched.errors import Invalid
from placement_sched.explain.values import FLAVOR, IMAGE, IgnoredValue
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.candidates_query import AggregateTerms, RequestGroup, TraitTerms
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.names import read_uuid
from placement_sched.model.provider import MAX_INT
from placement_sched.model.request_spec import RequestedGroup, RequestSpec

#: A line feed at the end of a key is not part of the name, as in nova. Elsewhere it is invalid.
_KEY = re.compile("(?P<prefix>resources|trait)(?P<suffix>[a-zA-Z0-9_-]{1,64})?:(?P<name>.*)\n?")
_SUFFIX = re.compile("[a-zA-Z0-9_-]{1,64}")
_CUSTOM = os_resource_classes.CUSTOM_NAMESPACE
_CLASSES = frozenset(os_resource_classes.STANDARDS)
_EXPECTED_CLASS = f"a standard resource class, or a name that begins with {_CUSTOM}"
_EXPECTED_AMOUNT = "a whole number that is not negative"
_EXPECTED_TRAIT = "the name of a trait after the colon"
_ADDRESS_TRAITS = {
    "passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED",
}
_SYMBOL = re.compile(r"[A-Z][A-Z0-9_]*")
_ANY_AGGREGATE = AggregateTerms()
OFF, PREFER, REQUIRE = "off", "prefer", "require"
#: A request filter implements ``require``, and a weigher implements ``prefer``.
TAGGED_AGGREGATES_OPTION = (
    "scheduler",
    cfg.StrOpt(
        "required_aggregates_by_trait",
        default=OFF,
        choices=[
            (OFF, "No effect beyond forbidden_aggregates."),
            (PREFER, "Hosts in them are preferred."),
            (REQUIRE, "Only hosts in them are candidates."),
        ],
        help="Whether a request that requires trait X must (require), should (prefer) or may (off) "
        "go to aggregates with metadata trait:X=required.",
    ),
)


def check_name(source: str, name: str) -> str:
    """Return a valid ``name``, or raise :class:`Invalid` with ``source``."""
    if not _SYMBOL.fullmatch(name):
        raise Invalid(
            f"{source}: {name!r} is not a valid name of a trait or resource class: use upper case "
            "letters, digits and _"
        )
    return name


def _parse_uuid(text: str) -> str:
    """Return a canonical uuid, or raise :class:`ValueError`."""
    uuid = read_uuid(text)
    if uuid is None:
        raise ValueError(f"{text!r} is not a uuid")
    return uuid


def build_aggregate_terms(
    member_of: Iterable[Iterable[str]], forbidden: Iterable[str]
) -> AggregateTerms:
    """Build the constraints of a request group about aggregates.

    A provider must be in an aggregate of each set in ``member_of``, and in none of ``forbidden``.
    Raises :class:`ValueError` for an aggregate that is not a uuid.
    """
    return AggregateTerms(
        tuple(frozenset(map(_parse_uuid, any_of)) for any_of in member_of),
        frozenset(map(_parse_uuid, forbidden)),
    )


@dataclass(slots=True)
class Group:
    """A request group under construction.

    ``resources`` maps classes to amounts. ``sources``, ``required`` and ``forbidden`` map classes,
    required and forbidden traits to their sources: the extra specs, image properties or JSON paths.
    """

    suffix: str = ""
    resources: dict[str, int] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)
    required: dict[str, list[str]] = field(default_factory=dict)
    forbidden: dict[str, list[str]] = field(default_factory=dict)
    aggregates: AggregateTerms = _ANY_AGGREGATE
    in_tree: str | None = None

    def add_amount(self, resource_class: str, amount: int, source: str) -> None:
        """Request an amount of a class, replacing any earlier amount."""
        self.resources[resource_class] = amount
        self.sources.setdefault(resource_class, []).append(source)

    def add_trait(self, trait: str, source: str, *, forbidden: bool = False) -> None:
        """Require or forbid a trait, or raise :class:`Invalid` for both."""
        (self.forbidden if forbidden else self.required).setdefault(trait, []).append(source)
        if trait in self.required and trait in self.forbidden:
            location = f" in group {self.suffix!r}" if self.suffix else ""
            raise Invalid(
                f"trait {trait} is forbidden by {self.forbidden[trait][0]} and required by "
                f"{self.required[trait][0]}{location}"
            )

    @property
    def all_sources(self) -> list[str]:
        """Return the sources of all classes and traits, without duplicates."""
        maps = (self.sources, self.required, self.forbidden)
        return list(dict.fromkeys(source for by in maps for each in by.values() for source in each))

    def build(self) -> RequestGroup:
        """Return the group of the candidates query."""
        return RequestGroup(
            suffix=self.suffix,
            resources=tuple(sorted(self.resources.items())),
            traits=TraitTerms(
                tuple(frozenset({name}) for name in sorted(self.required)),
                frozenset(self.forbidden),
            ),
            aggregates=self.aggregates,
            in_tree=self.in_tree,
        )


class Groups:
    """The groups of a request by suffix, with the flavor's ``group_policy``."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self.policy: str | None = None
        #: The suffixes of the groups from the flavor.
        self.flavor_suffixes: tuple[str, ...] = ()
        #: The sources that request an amount of 0 of a class.
        self.zero_amount_sources: tuple[str, ...] = ()
        #: The keys of flavor and image that are ignored, as in nova.
        self.ignored: list[IgnoredValue] = []

    def __getitem__(self, suffix: str) -> Group:
        """Return the group with this suffix, created if missing."""
        return self._groups.setdefault(suffix, Group(suffix))

    def __contains__(self, suffix: str) -> bool:
        return suffix in self._groups

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    @property
    def plain(self) -> Group:
        """Return the unsuffixed group."""
        return self[""]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the suffixes of all suffixed groups, in order of creation."""
        return tuple(suffix for suffix in self._groups if suffix)

    @property
    def required_traits(self) -> frozenset[str]:
        """Return the required traits of all groups."""
        return frozenset(name for group in self for name in group.required)

    def remove_empty(self) -> None:
        """Remove amounts of 0, which request nothing, and then empty groups."""
        self.zero_amount_sources = tuple(
            source
            for group in self
            for name, amount in group.resources.items()
            if not amount
            for source in group.sources[name]
        )
        for suffix, group in list(self._groups.items()):
            group.resources = {name: amount for name, amount in group.resources.items() if amount}
            traits = group.required or group.forbidden
            if not (group.resources or traits or group.aggregates != _ANY_AGGREGATE):
                del self._groups[suffix]

    def list_sources(self, name: str) -> list[str]:
        """Return the extra specs and other sources that name a class or trait."""
        sources: list[str] = []
        for group in self:
            for source_map in (group.sources, group.required, group.forbidden):
                sources += source_map.get(name, ())
        return list(dict.fromkeys(sources))


def build_groups(spec: RequestSpec, *, pinned: bool = True) -> Groups:
    """Build the request groups of a request.

    An amount in an extra spec replaces ``vcpus``, ``memory_mb`` or the disks of the flavor. With
    ``pinned`` false, all CPUs are requested as VCPU, for hosts without PCPU. Raises
    :class:`Invalid`, naming the keys, if keys are invalid or contradict each other.
    """
    groups = Groups()
    _add_extra_specs(groups, spec.flavor)
    groups.flavor_suffixes = groups.suffixes
    for name in sorted(spec.image.required_traits):
        if name:
            source = f"image property {f'trait:{name}'!r}"
            groups.plain.add_trait(check_name(source, name), source)
        else:
            ignored = IgnoredValue(IMAGE, "trait:", "required", _EXPECTED_TRAIT)
            groups.ignored.append(ignored)
    if pinned:
        _add_cpus(groups.plain, spec.hardware)
    for position, requested in enumerate(spec.requested_resources):
        _add_requested(groups, requested, f"$.request_spec.requested_resources[{position}]")
    _add_amounts(groups, spec)
    _add_hardware(groups.plain, spec.hardware)
    groups.remove_empty()
    return groups


def compute_flavor_amounts(
    flavor: Flavor, *, boot_from_volume: bool
) -> tuple[tuple[str, int], ...]:
    """List the resource classes and amounts that a flavor requests.

    Memory is in MB, disk in GB. Raises the errors of :func:`build_groups`.
    """
    total: Counter[str] = Counter()
    for group in build_groups(RequestSpec(flavor=flavor, is_bfv=boot_from_volume)):
        total.update(group.resources)
    return tuple(sorted(total.items()))


def _add_extra_specs(groups: Groups, flavor: Flavor) -> None:
    """Add the resource and trait extra specs of a flavor.

    Invalid specs that nova ignores are recorded as ignored, because instances with such an old
    flavor must remain movable. As in nova, their group still counts as a group of the flavor.
    """
    for key, value in flavor.extra_specs.items():
        expected = None
        if key == "group_policy":
            if value in {"none", "isolate"}:
                groups.policy = value
            else:
                expected = "none or isolate"
        elif match := _KEY.fullmatch(key):
            add = _add_amount if match["prefix"] == "resources" else _add_trait
            group, source = groups[match["suffix"] or ""], f"flavor extra spec {key!r}"
            expected = add(group, match["name"], value, source)
        if expected:
            groups.ignored.append(IgnoredValue(FLAVOR, key, value, expected))


# The next two functions return a description of valid values if they ignore the value, or None.


def _add_amount(group: Group, name: str, value: str, source: str) -> str | None:
    if name not in _CLASSES and not name.startswith(_CUSTOM):
        return _EXPECTED_CLASS
    try:
        amount = int(value)  # accepts surrounding blanks and a sign, as nova does
    except ValueError:
        return _EXPECTED_AMOUNT
    if amount < 0:
        return _EXPECTED_AMOUNT
    group.add_amount(check_name(source, name), min(amount, MAX_INT + 1), source)
    return None


def _add_trait(group: Group, name: str, value: str, source: str) -> str | None:
    if value not in {"required", "forbidden"}:
        return "required or forbidden"
    # Placement strips the names in nova's query. A forbidden name begins with "!" there.
    name = name.strip() if value == "required" else name.rstrip()
    if not name:
        return _EXPECTED_TRAIT
    group.add_trait(check_name(source, name), source, forbidden=value == "forbidden")
    return None


def _add_cpus(group: Group, hardware: RequestedHardware) -> None:
    """Request PCPU and hyperthreading as the CPU policies require.

    With the policy ``mixed``, the CPUs in ``hw:cpu_dedicated_mask`` are PCPU, or else the realtime
    CPUs. Isolated emulator threads need an additional PCPU.
    """
    cpus, vcpus, source = hardware.cpus, hardware.flavor.vcpus, hardware.find_source("cpu_policy")
    emulator_cpus = 1 if cpus.emulator_threads == "isolate" else 0
    if cpus.policy == "dedicated":
        group.add_amount("PCPU", vcpus + emulator_cpus, source)
    elif cpus.policy == "mixed":
        pinned = len(cpus.dedicated or cpus.realtime or ())
        group.add_amount("VCPU", vcpus - pinned, source)
        group.add_amount("PCPU", pinned + emulator_cpus, source)
    if cpus.thread_policy in ("require", "isolate"):
        source, forbidden = (
            hardware.find_source("cpu_thread_policy"),
            cpus.thread_policy == "isolate",
        )
        group.add_trait("HW_CPU_HYPERTHREADING", source, forbidden=forbidden)


def _add_requested(groups: Groups, requested: RequestedGroup, path: str) -> None:
    """Add the group of a port or device, with its id as suffix."""

    def get_source(key: str) -> str:
        return requested.source or f"{path}.{key}"

    suffix, json_path = requested.requester_id or "", get_source("requester_id")
    if not _SUFFIX.fullmatch(suffix):
        raise Invalid(
            f"requester_id must be 1 to 64 letters, digits, _ or -, not {requested.requester_id!r}",
            json_path=json_path,
        )
    if requested.is_empty:
        raise Invalid(f"request group {suffix!r} is empty", json_path=requested.source or path)
    if suffix in groups:
        earlier = ", ".join(groups[suffix].all_sources) or "the flavor"
        raise Invalid(
            f"duplicate request group {suffix!r}, also from {earlier}", json_path=json_path
        )
    group = groups[suffix]
    for name, amount in requested.resources.items():
        group.add_amount(name, amount, get_source(f"resources.{name}"))
    for name in sorted(requested.required_traits):
        group.add_trait(name, get_source("required_traits"))
    for name in sorted(requested.forbidden_traits):
        group.add_trait(name, get_source("forbidden_traits"), forbidden=True)
    group.aggregates = build_aggregate_terms(requested.aggregates, requested.forbidden_aggregates)
    group.in_tree = requested.in_tree and _parse_uuid(requested.in_tree)


def _add_amounts(groups: Groups, spec: RequestSpec) -> None:
    """Request the flavor's amount of each class that no group requests."""
    flavor, group = spec.flavor, groups.plain
    requested = {name for each in groups for name in each.resources}
    if "VCPU" not in requested and "PCPU" not in requested:
        group.add_amount("VCPU", flavor.vcpus, "flavor vcpus")
    if "MEMORY_MB" not in requested:
        group.add_amount("MEMORY_MB", flavor.memory_mb, "flavor memory_mb")
    if "DISK_GB" not in requested:
        root_gb = 0 if spec.is_bfv else flavor.root_gb  # a volume is not local
        swap_gb = -(-flavor.swap // 1024)  # from MB, rounded up
        group.add_amount("DISK_GB", root_gb + flavor.ephemeral_gb + swap_gb, "flavor disks")


def _add_hardware(group: Group, hardware: RequestedHardware) -> None:
    devices, source = hardware.devices, hardware.find_source
    if encryption := hardware.memory.encryption:
        group.add_amount("MEM_ENCRYPTION_CONTEXT", 1, source("mem_encryption"))
        group.add_trait(encryption.trait, source("mem_encryption"))
    for resource_class, amount in devices.pmem_namespaces.items():
        group.add_amount(resource_class, amount, "flavor extra spec 'hw:pmem'")
    for trait in devices.tpm_traits:
        group.add_trait(trait, source("tpm_version"))
    if devices.pci_affinity_policy == "socket":
        group.add_trait("COMPUTE_SOCKET_PCI_NUMA_AFFINITY", source("pci_numa_affinity_policy"))
    if devices.secure_boot == "required":
        group.add_trait("COMPUTE_SECURITY_UEFI_SECURE_BOOT", source("secure_boot", "os"))
    if mode := devices.address_mode:
        group.add_trait(_ADDRESS_TRAITS[mode], source("maxphysaddr_mode"))
    if hardware.has_stateless_firmware:
        firmware = "image property 'hw_firmware_stateless'"
        group.add_trait("COMPUTE_SECURITY_STATELESS_FIRMWARE", firmware)


def get_tagged_aggregates_mode(settings: Settings) -> str:
    """Return the mode: :data:`OFF`, :data:`PREFER` or :data:`REQUIRE`."""
    return str(settings.scheduler.required_aggregates_by_trait)


def collect_required_traits(spec: RequestSpec) -> frozenset[str]:
    """Return the traits that any group of the request requires.

    As in nova, traits in ``root_required``, from callers or request filters, are not included.
    Raises the errors of :func:`build_groups`.
    """
    return build_groups(spec).required_traits | spec.image.suffixed_traits


def map_tagged_aggregates(
    traits: Collection[str], aggregates: Iterable[HostAggregate]
) -> Mapping[str, list[str]]:
    """Map traits, sorted, to the aggregates with ``trait:X=required``."""
    by_trait: dict[str, list[str]] = {}
    for aggregate in aggregates:
        for trait in aggregate.reserving_traits:
            if trait in traits:
                by_trait.setdefault(trait, []).append(aggregate.uuid)
    return dict(sorted(by_trait.items()))
