# SPDX-License-Identifier: Apache-2.0
"""Validation of the extra specs of flavors.

An extra spec in a namespace with validators (``hw:``) must have a validator itself. Other extra
specs without a validator are accepted. Validators are registered by this module, and by installed
packages under the entry point group ``placement_sched.extra_spec_validators``: an entry point names
a module whose ``register()`` returns a list of :class:`ExtraSpecValidator`. With the modules of
nova, nova's entry point group counts too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import entry_points
from typing import Any

import os_resource_classes
import os_traits

from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.model.extension import load_hooks
from placement_sched.model.image import CHOICES
from placement_sched.scheduler.plugins import describe_entry_point, load_entry_point

GROUP = "placement_sched.extra_spec_validators"
#: Value types of extra specs.
TEXT: Mapping[str, Any] = {"type": str}
FLAG: Mapping[str, Any] = {"type": bool}

#: Texts of booleans, in any case and with surrounding white space.
_BOOLEANS = frozenset("1 t true on y yes 0 f false off n no".split())  # noqa: SIM905 - reads best

#: Further keys of :attr:`ExtraSpecValidator.value`, by type.
_LIMITS: Mapping[type, frozenset[str]] = {
    str: frozenset({"enum", "pattern"}),
    int: frozenset({"min", "max"}),
    bool: frozenset(),
}
_NODE = {"name": "num", "pattern": r"\d+", "description": "The number of the NUMA node."}
#: Extra specs with choices: the description, then the choices. Without choices, the values of the
#: image property of the same name are valid.
_CHOICES = {
    "hw:cpu_policy": ("Whether virtual CPUs are pinned.",),
    "hw:cpu_thread_policy": ("Whether pinned CPUs share a core.",),
    "hw:emulator_threads_policy": ("Which CPUs run the emulator's threads.", "isolate", "share"),
    "hw:ephemeral_encryption_format": ("How local disks are encrypted.",),
    "hw:maxphysaddr_mode": ("How the width of physical addresses is provided.",),
    "hw:mem_encryption_model": ("How memory is encrypted.",),
    "hw:pci_numa_affinity_policy": ("The required NUMA affinity of PCI devices.",),
    "hw:sound_model": ("The sound device.",),
    "hw:tpm_model": ("The model of the TPM.",),
    "hw:tpm_secret_security": ("Where the TPM secret is stored.", "user", "host", "deployment"),
    "hw:tpm_version": ("The version of the TPM.",),
    "hw:usb_model": ("The USB controller.",),
    "hw:viommu_model": ("The virtual IOMMU.",),
    "hw:watchdog_action": ("The action of the watchdog.",),
    "os:secure_boot": ("Whether the instance boots only signed software.", "disabled", "required"),
}
#: Amounts that must not be negative.
_AMOUNTS = (
    "cpu_limit cpu_period cpu_shares cpu_shares_share disk_io_limit disk_io_shares_share"
    " disk_read_bytes_sec disk_read_iops_sec disk_total_bytes_sec disk_total_iops_sec"
    " disk_write_bytes_sec disk_write_iops_sec memory_limit memory_shares_share"
    " vif_inbound_average vif_inbound_burst vif_inbound_peak vif_limit vif_outbound_average"
    " vif_outbound_burst vif_outbound_peak vif_shares_share"
)
#: Amounts that may be negative, which means no limit for some drivers.
_SIGNED_AMOUNTS = "cpu_quota cpu_reservation disk_io_reservation memory_reservation vif_reservation"
_LEVELS = ("cpu_shares_level", "disk_io_shares_level", "memory_shares_level", "vif_shares_level")
_PART = {"name": "part", "pattern": r"(:\w+)*", "description": "The path of the part."}
_KEY = {"name": "key", "pattern": ".+", "description": "The key of the metadata."}
#: Attributes of host states with a number or a text.
_ATTRIBUTES = (
    "aggregates cell_uuid cpu_allocation_ratio current_workload disk_allocation_ratio"
    " disk_available_least disk_mb_used failed_builds free_disk_gb free_disk_mb free_ram_mb host"
    " host_ip hypervisor_hostname hypervisor_type hypervisor_version id local_gb local_gb_used"
    " mapped memory_mb memory_mb_used num_instances num_io_ops ram_allocation_ratio running_vms"
    " service_id total_usable_disk_gb total_usable_ram_mb updated uuid vcpus vcpus_total"
    " vcpus_used"
)
#: Attributes of host states with parts. An extra spec names a part after a colon.
_ATTRIBUTES_WITH_PARTS = (
    "cpu_info instances limits metrics nodename numa_topology pci_device_pools pci_stats stats"
    " supported_hv_specs supported_instances"
)
_GROUP = {
    "name": "group",
    "pattern": "[a-zA-Z0-9_-]{0,64}",
    "description": "The suffix of the request group, empty for the unsuffixed group.",
}
_CUSTOM = "CUSTOM_[A-Z0-9_]+"


@dataclass(frozen=True)
class ExtraSpecValidator:
    r"""Validator of an extra spec, as in nova.

    ``name`` may have parameters in braces (``hw:numa_mem.{num}``), which ``parameters`` describes:
    ``{"name": "num", "pattern": r"\d+", "description": "..."}``. ``value`` has a ``type``, ``str``,
    ``int`` or ``bool``, and limits: ``enum`` or ``pattern`` for text, ``min`` and ``max`` for
    numbers. Raises :class:`ValueError` for an invalid definition.
    """

    name: str
    description: str
    value: Mapping[str, Any]
    parameters: Sequence[Mapping[str, str]] | None = None

    def __post_init__(self) -> None:
        value_type = self.value.get("type")
        if not isinstance(value_type, type) or value_type not in _LIMITS:
            raise ValueError(f"{self.name}: the type of the value must be str, int or bool")
        unknown = set(self.value) - _LIMITS[value_type] - {"type", "description"}
        if unknown:
            raise ValueError(
                f"{self.name}: {value_type.__name__} has no {', '.join(sorted(unknown))}"
            )
        try:
            re.compile(self.value.get("pattern", ""))
            self.name_pattern.fullmatch("")
        except (re.error, KeyError, TypeError) as error:
            raise ValueError(f"{self.name}: {error}") from None

    @property
    def name_pattern(self) -> re.Pattern[str]:
        """Return a regular expression that matches whole keys."""
        return re.compile(self._with_patterns(self.name))

    @property
    def namespace_pattern(self) -> re.Pattern[str] | None:
        """Return a regular expression of the namespace, None without a colon."""
        namespace, colon, _ = self.name.partition(":")
        return re.compile(self._with_patterns(namespace)) if colon else None

    def _with_patterns(self, name: str) -> str:
        patterns = {parameter["name"]: parameter["pattern"] for parameter in self.parameters or ()}
        parts = re.split(r"\{(\w+)\}", name)
        return "".join(
            f"(?:{patterns[part]})" if index % 2 else re.escape(part)
            for index, part in enumerate(parts)
        )

    def check(self, value: str) -> None:
        """Raise :class:`Invalid` for a value that is not allowed."""
        value_type, problem = self.value["type"], None
        choices, pattern = self.value.get("enum"), self.value.get("pattern")
        if value_type is int:
            problem = self._check_number(value)
        elif value_type is bool and value.strip().lower() not in _BOOLEANS:
            problem = "not a valid boolean-like value"
        elif choices is not None and value not in choices:
            problem = f"not one of: {', '.join(choices)}"
        elif pattern is not None and not re.fullmatch(pattern, value):
            problem = f"not of the format '{pattern}'"
        if problem:
            raise Invalid(f"Validation failed; '{value}' is {problem}.")

    def _check_number(self, value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:
            return "not a valid integer value"
        minimum, maximum = self.value.get("min"), self.value.get("max")
        if minimum is not None and number < minimum:
            return f"less than the min value of '{minimum}'"
        if maximum is not None and number > maximum:
            return f"greater than the max value of '{maximum}'"
        return None


def build_choice_type(*choices: str) -> Mapping[str, Any]:
    """Return the value type of texts from a list."""
    return {"type": str, "enum": choices}


def build_pattern_type(pattern: str) -> Mapping[str, Any]:
    """Return the value type of texts that a regular expression matches."""
    return {"type": str, "pattern": pattern}


def build_integer_type(minimum: int | None = None, **limits: int) -> Mapping[str, Any]:
    """Return the value type of integers, optionally with a minimum."""
    return {"type": int, **({} if minimum is None else {"min": minimum}), **limits}


def build_validators(
    table: Mapping[str, tuple[str, Mapping[str, Any]]], *parameters: Mapping[str, str]
) -> list[ExtraSpecValidator]:
    """Build validators from a table of names, descriptions and value types."""
    return [
        ExtraSpecValidator(name, description, value, parameters or None)
        for name, (description, value) in table.items()
    ]


def check(key: str, value: str) -> None:
    """Reject an extra spec that a flavor must not have.

    Raises :class:`Invalid`, and :class:`ConfigurationError` for a broken validator.
    """
    validator = find_validator(key)
    namespace, colon, _ = key.partition(":")
    if validator is not None:
        validator.check(value)
    elif colon and any(each.fullmatch(namespace) for each in _index_validators()[2]):
        raise Invalid(
            f"Validation failed; extra spec '{key}' does not appear to be a valid extra spec."
        )


def find_validator(key: str) -> ExtraSpecValidator | None:
    """Return the validator of an extra spec, or None."""
    plain, patterned, _ = _index_validators()
    matches = (candidate for pattern, candidate in patterned if pattern.fullmatch(key))
    return plain.get(key) or next(matches, None)


def list_plain_names() -> list[str]:
    """Return the names of the extra specs without parameters."""
    return list(_index_validators()[0])


@cache
def list_namespaces() -> frozenset[str]:
    """Return the namespaces of extra specs, without group suffixes."""
    return frozenset(
        re.split("[:{]", each.name)[0] for each in list_validators() if ":" in each.name
    )


@cache
def list_validators() -> tuple[ExtraSpecValidator, ...]:
    """Return all validators, sorted by name and cached.

    Raises :class:`ConfigurationError`, naming the entry point, if it is invalid.
    """
    validators = (
        *_build_hardware_validators(),
        *_build_scheduling_validators(),
        *_load_from_packages(),
    )
    return tuple(sorted(validators, key=lambda each: each.name))


@cache
def _index_validators() -> tuple[
    dict[str, ExtraSpecValidator],
    list[tuple[re.Pattern[str], ExtraSpecValidator]],
    set[re.Pattern[str]],
]:
    """Return validators by name, validators by pattern, and namespaces."""
    validators = list_validators()
    return (
        {each.name: each for each in validators if not each.parameters},
        [(each.name_pattern, each) for each in validators if each.parameters],
        {each.namespace_pattern for each in validators if each.namespace_pattern is not None},
    )


def _load_from_packages() -> Iterator[ExtraSpecValidator]:
    points = [*entry_points(group=GROUP)]
    for modules in load_hooks("nova_modules"):
        points += modules.list_extra_spec_entry_points()
    for entry_point in sorted(points, key=lambda each: each.name):
        load = partial(lambda point: list(point.load().register()), entry_point)
        for validator in load_entry_point(entry_point, load):
            if not isinstance(validator, ExtraSpecValidator):
                origin = describe_entry_point(entry_point)
                raise ConfigurationError(f"{origin}: {validator!r} is not an ExtraSpecValidator")
            yield validator


_CPUS = build_pattern_type(r"\^?\d+((-\d+)?(,\^?\d+(-\d+)?)?)*")
_PAGES = build_pattern_type(r"(large|small|any|\d+([kKMGT]i?)?(b|bit|B)?)")

_HARDWARE = {
    "hw:cpu_cores": ("Cores per socket.", build_integer_type(1)),
    "hw:cpu_dedicated_mask": ("The virtual CPUs that are pinned.", _CPUS),
    "hw:cpu_max_cores": ("Maximum number of cores per socket.", build_integer_type(1)),
    "hw:cpu_max_sockets": ("Maximum number of sockets.", build_integer_type(1)),
    "hw:cpu_max_threads": ("Maximum number of threads per core.", build_integer_type(1)),
    "hw:cpu_realtime": ("Whether virtual CPUs run in real time.", FLAG),
    "hw:cpu_realtime_mask": ("The virtual CPUs that run in real time.", _CPUS),
    "hw:cpu_sockets": ("Sockets.", build_integer_type(1)),
    "hw:cpu_threads": ("Threads per core.", build_integer_type(1)),
    "hw:maxphysaddr_bits": ("The width of physical addresses.", build_integer_type(0)),
    "hw:numa_nodes": ("NUMA nodes of the instance.", build_integer_type(1)),
    "hw:pmu": ("Whether there is a performance monitoring unit.", FLAG),
    "hw:ephemeral_encryption": ("Whether local disks are encrypted.", FLAG),
    "hw:locked_memory": ("Whether memory is never swapped out.", FLAG),
    "hw:mem_encryption": ("Whether memory is encrypted.", FLAG),
    "hw:mem_page_size": ("The size of memory pages.", _PAGES),
    "hw:pmem": ("Virtual persistent memory, by label.", build_pattern_type("([a-zA-Z0-9_]+(,)?)+")),
    "hw:boot_menu": ("Whether the boot menu is shown.", FLAG),
    "hw:hide_hypervisor_id": ("Whether the hypervisor is hidden.", FLAG),
    "hw:redirected_usb_ports": ("USB ports that are redirected.", build_integer_type(0, max=15)),
    "hw:serial_port_count": ("Serial ports.", build_integer_type(0)),
    "hw:vif_multiqueue_enabled": ("Whether network devices have several queues.", FLAG),
    "hw:virtio_packed_ring": ("Whether virtio queues are packed.", FLAG),
    "hw_rng:allowed": ("Whether there is a random number generator.", FLAG),
    "hw_rng:rate_bytes": ("Random bytes per period.", build_integer_type(0)),
    "hw_rng:rate_period": ("The period in milliseconds.", build_integer_type(0)),
    "hw_video:ram_max_mb": ("Maximum video memory in MB.", build_integer_type(0)),
    "hide_hypervisor_id": ("The older name of hw:hide_hypervisor_id.", FLAG),
    "accel:device_profile": ("The device profile of cyborg for the accelerators.", TEXT),
    "pci_passthrough:alias": (
        "Aliases of [pci] alias and how many of each: a1:2, or a1:2,b1:1.",
        build_pattern_type(r"[^:]+:\d+(?:\s*,\s*[^:]+:\d+)*"),
    ),
    "vmware:hw_version": ("The version of the virtual hardware of the instance.", TEXT),
    "vmware:storage_policy": ("The storage policy of the instance.", TEXT),
}

_NUMA_NODES = {
    "hw:numa_cpus.{num}": ("The virtual CPUs of this NUMA node.", _CPUS),
    "hw:numa_mem.{num}": ("The memory in MB of this NUMA node.", build_integer_type(1)),
}

_LEVEL = build_choice_type("custom", "high", "normal", "low")


def _build_hardware_validators() -> list[ExtraSpecValidator]:
    quotas = {
        f"quota:{name}": ("The priority of an instance under contention.", _LEVEL)
        for name in _LEVELS
    }
    for names, value in (
        (_AMOUNTS, build_integer_type(0)),
        (_SIGNED_AMOUNTS, build_integer_type()),
    ):
        for name in names.split():
            quotas[f"quota:{name}"] = (f"The {name.replace('_', ' ')} of an instance.", value)
    by_choice = {
        name: (text, build_choice_type(*(choices or CHOICES[name.replace(":", "_")])))
        for name, (text, *choices) in _CHOICES.items()
    }
    tables = _HARDWARE | by_choice | quotas
    return build_validators(tables) + build_validators(_NUMA_NODES, _NODE)


_TRAITS = build_pattern_type(r"[A-Z][A-Z0-9_]*(\s*,\s*[A-Z][A-Z0-9_]*)*")
_PREFERENCES = {
    "scheduler:prefer_traits": ("Traits of preferred hosts, separated by commas.", _TRAITS),
    "scheduler:avoid_traits": ("Traits of avoided hosts, separated by commas.", _TRAITS),
    "scheduler:spread_by": (
        "The metadata key of aggregates. The server group is spread over its values.",
        build_pattern_type(r".*\S.*"),
    ),
    "scheduler:max_skew": (
        "The largest difference of members between two domains.",
        build_integer_type(1),
    ),
    "scheduler:spread_mode": (
        "Whether hosts beyond the largest difference are rejected.",
        build_choice_type("hard", "soft"),
    ),
}


def _build_scheduling_validators() -> list[ExtraSpecValidator]:
    prefix = "The value, or the comparison, that"
    attributes = {
        f"capabilities:{name}": (f"{prefix} a host's {name} must meet.", TEXT)
        for name in _ATTRIBUTES.split()
    }
    with_parts = {
        f"capabilities:{name}{{part}}": (f"{prefix} a part of {name} must meet.", TEXT)
        for name in _ATTRIBUTES_WITH_PARTS.split()
    }
    names = "|".join([*os_resource_classes.STANDARDS, _CUSTOM])
    class_parameter = {"name": "class", "pattern": names, "description": "A resource class."}
    names = "|".join([*os_traits.get_traits(), _CUSTOM])
    trait_parameter = {"name": "trait", "pattern": names, "description": "A trait."}
    return [
        *build_validators(attributes),
        *build_validators(with_parts, _PART),
        ExtraSpecValidator(
            "aggregate_instance_extra_specs:{key}",
            f"{prefix} this key of the metadata must meet.",
            TEXT,
            (_KEY,),
        ),
        ExtraSpecValidator(
            "resources{group}:{class}",
            "The amount of this class, which replaces the amount of the flavor.",
            {"type": int},
            (_GROUP, class_parameter),
        ),
        ExtraSpecValidator(
            "trait{group}:{trait}",
            "Whether a provider must have this trait, or must not have it.",
            build_choice_type("required", "forbidden"),
            (_GROUP, trait_parameter),
        ),
        ExtraSpecValidator(
            "group_policy",
            "Whether groups with a suffix may use the same provider.",
            build_choice_type("isolate", "none"),
        ),
        *build_validators(_PREFERENCES),
    ]
