"""Request groups: what flavor, image and outside askers want of providers, each with its source.

Source: nova's documentation, "Flavors" and "Extra Specs" (``resources:``, ``trait:``,
``group_policy``), and the Placement documentation, "Granular Resource Requests".
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import os_resource_classes

from placement_sched.errors import Invalid
from placement_sched.model.candidates_query import AggregateTerms, RequestGroup, TraitTerms
from placement_sched.model.explanation import FLAVOR, IMAGE, Ignored
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.image import Image
from placement_sched.model.names import read_uuid
from placement_sched.model.provider import MAX_INT
from placement_sched.model.request_spec import RequestedGroup, RequestSpec

#: A line feed at the end of a key is not part of the name, as in nova; elsewhere nothing matches.
_KEY = re.compile("(?P<prefix>resources|trait)(?P<suffix>[a-zA-Z0-9_-]{1,64})?:(?P<name>.*)\n?")
_SUFFIX = re.compile("[a-zA-Z0-9_-]{1,64}")
_CUSTOM = os_resource_classes.CUSTOM_NAMESPACE
_CLASSES = frozenset(os_resource_classes.STANDARDS)
_A_CLASS = f"a standard resource class, or a name that begins with {_CUSTOM}"
_AN_AMOUNT = "a whole number that is not negative"
_A_TRAIT = "the name of a trait after the colon"
_ADDRESS_TRAITS = {
    "passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED",
}
_SYMBOL = re.compile(r"[A-Z][A-Z0-9_]*")
_ANYWHERE = AggregateTerms()


def checked_name(source: str, name: str) -> str:
    """Return ``name``; raises :class:`Invalid` naming ``source`` if no class or trait has such."""
    if not _SYMBOL.fullmatch(name):
        raise Invalid(f"{source}: {name!r} is not a name: use upper case letters, digits and _")
    return name


def _uuid(text: str) -> str:
    """Return a UUID in its usual form; raises :class:`ValueError` where it is not one."""
    found = read_uuid(text)
    if found is None:
        raise ValueError(f"{text!r} is not a uuid")
    return found


def aggregate_terms(member_of: Iterable[Iterable[str]], forbidden: Iterable[str]) -> AggregateTerms:
    """Return which aggregates are wanted: one of each of ``member_of``, none of ``forbidden``."""
    return AggregateTerms(
        tuple(frozenset(map(_uuid, any_of)) for any_of in member_of),
        frozenset(map(_uuid, forbidden)),
    )


@dataclass(slots=True)
class Group:
    """One group: amounts by class, and who asks for each class, requires or forbids each trait."""

    suffix: str = ""
    resources: dict[str, int] = field(default_factory=dict)
    sources: dict[str, list[str]] = field(default_factory=dict)
    required: dict[str, list[str]] = field(default_factory=dict)
    forbidden: dict[str, list[str]] = field(default_factory=dict)
    aggregates: AggregateTerms = _ANYWHERE
    in_tree: str | None = None

    def ask(self, resource_class: str, amount: int, source: str) -> None:
        """Ask for so much of a class, in place of what was asked of it before."""
        self.resources[resource_class] = amount
        self.sources.setdefault(resource_class, []).append(source)

    def require(self, trait: str, source: str, *, forbidden: bool = False) -> None:
        """Require or forbid a trait; raises :class:`Invalid` naming both sources if both are."""
        (self.forbidden if forbidden else self.required).setdefault(trait, []).append(source)
        if trait in self.required and trait in self.forbidden:
            where = f" in group {self.suffix!r}" if self.suffix else ""
            raise Invalid(
                f"trait {trait} is forbidden by {self.forbidden[trait][0]} and required by "
                f"{self.required[trait][0]}{where}"
            )

    @property
    def askers(self) -> list[str]:
        """Return every source that the group has, each once."""
        every = (self.sources, self.required, self.forbidden)
        return list(dict.fromkeys(one for by in every for some in by.values() for one in some))

    def frozen(self) -> RequestGroup:
        """Return the group as the candidates search takes it."""
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
    """The groups of one request by suffix; ``policy`` is what the flavor says of them together."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self.policy: str | None = None
        #: The suffixes of the groups that the flavor has made.
        self.of_flavor: tuple[str, ...] = ()
        #: Who has asked for none of a class.
        self.declining: tuple[str, ...] = ()
        #: What of flavor and image has no effect, as in nova.
        self.ignored: list[Ignored] = []

    def __getitem__(self, suffix: str) -> Group:
        """Return the group of this suffix, a new one where there is none; "" is the one without."""
        return self._groups.setdefault(suffix, Group(suffix))

    def __contains__(self, suffix: str) -> bool:
        return suffix in self._groups

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    @property
    def plain(self) -> Group:
        """Return the group without suffix."""
        return self[""]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the suffixes of the groups that have one, in the order in which they came."""
        return tuple(suffix for suffix in self._groups if suffix)

    @property
    def required_traits(self) -> frozenset[str]:
        """Return every trait that any group requires."""
        return frozenset(name for group in self for name in group.required)

    def ignore(self, source: str, key: str, value: str, expected: str) -> None:
        """Note what of flavor or image has no effect, and what was expected in its place."""
        self.ignored.append(Ignored(source, key, value, expected))

    def strip(self) -> None:
        """Leave out amounts of 0, by which a flavor says that it wants none, and empty groups."""
        self.declining = tuple(
            source
            for group in self
            for name, amount in group.resources.items()
            if not amount
            for source in group.sources[name]
        )
        for suffix, group in list(self._groups.items()):
            group.resources = {name: amount for name, amount in group.resources.items() if amount}
            traits = group.required or group.forbidden
            if not (group.resources or traits or group.aggregates != _ANYWHERE):
                del self._groups[suffix]

    def sources_of(self, name: str) -> list[str]:
        """Return who named a class or trait, each once."""
        every = (by for one in self for by in (one.sources, one.required, one.forbidden))
        return list(dict.fromkeys(source for by in every for source in by.get(name, ())))


def groups_of(spec: RequestSpec, *, pinned: bool = True) -> Groups:
    """Return the groups that a request asks for.

    Later askers give way to earlier ones, so the order counts: what extra specs ask in so many
    words takes the place of what the flavor says. With ``pinned`` false, CPU policies are
    ignored: all CPUs are asked for as VCPU, as hosts offer them that know no PCPU. Raises
    :class:`Invalid` for what cannot be, or contradicts itself, naming the keys.
    """
    groups = Groups()
    _add_extra_specs(groups, spec.flavor)
    groups.of_flavor = groups.suffixes
    _add_image_traits(groups, spec.image)
    if pinned:
        _add_cpus(groups.plain, spec.hardware)
    for position, requested in enumerate(spec.requested_resources):
        _add_requested(groups, requested, f"$.request_spec.requested_resources[{position}]")
    _add_amounts(groups, spec)
    _add_hardware(groups.plain, spec.hardware)
    groups.strip()
    return groups


def amounts_of(flavor: Flavor, *, boot_from_volume: bool) -> tuple[tuple[str, int], ...]:
    """Return how much of each class an instance of a flavor takes, all groups together.

    Memory is in MB, disk in GB. Raises :class:`Invalid` as :func:`groups_of` does.
    """
    total: Counter[str] = Counter()
    for group in groups_of(RequestSpec(flavor=flavor, is_bfv=boot_from_volume)):
        total.update(group.resources)
    return tuple(sorted(total.items()))


def _add_extra_specs(groups: Groups, flavor: Flavor) -> None:
    """Add what a flavor asks of placement in so many words.

    What nova logs and ignores is ignored here too, and noted: nova's API did not always look at
    extra specs, and an instance of such a flavor has to find another host one day. The group of
    what is ignored is there all the same while the flavor's groups are counted, as in nova.
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
            groups.ignore(FLAVOR, key, value, expected)


# Each of these two returns what was expected where it ignores what was said.


def _add_amount(group: Group, name: str, value: str, source: str) -> str | None:
    if name not in _CLASSES and not name.startswith(_CUSTOM):
        return _A_CLASS
    try:
        amount = int(value)  # blanks at the ends and a sign are taken, as by nova
    except ValueError:
        return _AN_AMOUNT
    if amount < 0:
        return _AN_AMOUNT
    group.ask(checked_name(source, name), min(amount, MAX_INT + 1), source)
    return None


def _add_trait(group: Group, name: str, value: str, source: str) -> str | None:
    if value not in {"required", "forbidden"}:
        return "required or forbidden"
    if not name:
        return _A_TRAIT
    group.require(checked_name(source, name), source, forbidden=value == "forbidden")
    return None


def _add_image_traits(groups: Groups, image: Image) -> None:
    """Add the traits that an image requires, to the group without suffix: images know no other.

    Other values than ``required`` say nothing, as in nova, which does not log them either.
    """
    for name in sorted(image.required_traits):
        if name:
            source = f"image property {f'trait:{name}'!r}"
            groups.plain.require(checked_name(source, name), source)
        else:
            groups.ignore(IMAGE, "trait:", "required", _A_TRAIT)


def _add_cpus(plain: Group, hardware: RequestedHardware) -> None:
    """Ask for CPUs of their own (PCPU) as the CPU policy says, and for or against threads.

    Of a mixed instance the dedicated CPUs are its dedicated or else its realtime ones. Threads of
    the emulator that are kept apart need one more.
    """
    cpus, vcpus, source = hardware.cpus, hardware.flavor.vcpus, hardware.source("cpu_policy")
    extra = 1 if cpus.emulator_threads == "isolate" else 0
    if cpus.policy == "dedicated":
        plain.ask("PCPU", vcpus + extra, source)
    elif cpus.policy == "mixed":
        pinned = len(cpus.dedicated or cpus.realtime or ())
        plain.ask("VCPU", vcpus - pinned, source)
        plain.ask("PCPU", pinned + extra, source)
    if cpus.thread_policy in ("require", "isolate"):
        source, forbidden = hardware.source("cpu_thread_policy"), cpus.thread_policy == "isolate"
        plain.require("HW_CPU_HYPERTHREADING", source, forbidden=forbidden)


def _add_requested(groups: Groups, one: RequestedGroup, path: str) -> None:
    """Add what a port, an accelerator or a PCI device asks for, as a group under its id.

    Raises :class:`Invalid` where it requests nothing, and where the id is invalid or in use.
    """

    def place(part: str) -> str:
        return one.source or f"{path}.{part}"

    suffix, at = one.requester_id or "", place("requester_id")
    if not _SUFFIX.fullmatch(suffix):
        raise Invalid(
            f"requester_id must be 1 to 64 letters, digits, _ or -, not {one.requester_id!r}", at=at
        )
    if one.is_empty:
        raise Invalid(f"request group {suffix!r} is empty", at=one.source or path)
    if suffix in groups:
        earlier = ", ".join(groups[suffix].askers) or "the flavor"
        raise Invalid(f"duplicate request group {suffix!r}, also from {earlier}", at=at)
    group = groups[suffix]
    for name, amount in one.resources.items():
        group.ask(name, amount, place(f"resources.{name}"))
    for name in sorted(one.required_traits):
        group.require(name, place("required_traits"))
    for name in sorted(one.forbidden_traits):
        group.require(name, place("forbidden_traits"), forbidden=True)
    group.aggregates = aggregate_terms(one.aggregates, one.forbidden_aggregates)
    group.in_tree = one.in_tree and _uuid(one.in_tree)


def _add_amounts(groups: Groups, spec: RequestSpec) -> None:
    """Request the flavor's amount, which may be 0, of each class that no group names yet."""
    flavor, plain = spec.flavor, groups.plain
    named = {name for group in groups for name in group.resources}
    if "VCPU" not in named and "PCPU" not in named:
        plain.ask("VCPU", flavor.vcpus, "flavor vcpus")
    if "MEMORY_MB" not in named:
        plain.ask("MEMORY_MB", flavor.memory_mb, "flavor memory_mb")
    if "DISK_GB" not in named:
        root_gb = 0 if spec.is_bfv else flavor.root_gb  # a volume is not local
        swap_gb = -(-flavor.swap // 1024)  # from MB, rounded up
        plain.ask("DISK_GB", root_gb + flavor.ephemeral_gb + swap_gb, "flavor disks")


def _add_hardware(plain: Group, hardware: RequestedHardware) -> None:
    """Ask for what memory encryption, persistent memory, TPM, firmware and the like need."""
    devices, source = hardware.devices, hardware.source
    if encryption := hardware.memory.encryption:
        plain.ask("MEM_ENCRYPTION_CONTEXT", 1, source("mem_encryption"))
        plain.require(encryption.trait, source("mem_encryption"))
    for resource_class, amount in devices.pmem_namespaces.items():
        plain.ask(resource_class, amount, "flavor extra spec 'hw:pmem'")
    for trait in devices.tpm_traits:
        plain.require(trait, source("tpm_version"))
    if devices.pci_affinity_policy == "socket":
        plain.require("COMPUTE_SOCKET_PCI_NUMA_AFFINITY", source("pci_numa_affinity_policy"))
    if devices.secure_boot == "required":
        plain.require("COMPUTE_SECURITY_UEFI_SECURE_BOOT", source("secure_boot", "os"))
    if mode := devices.address_mode:
        plain.require(_ADDRESS_TRAITS[mode], source("maxphysaddr_mode"))
    if hardware.has_stateless_firmware:
        firmware = "image property 'hw_firmware_stateless'"
        plain.require("COMPUTE_SECURITY_STATELESS_FIRMWARE", firmware)
