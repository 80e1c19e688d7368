# SPDX-License-Identifier: Apache-2.0
"""Labels in place of the names in clouds and requests.

Amounts, times, standard traits and classes, and hardware properties are not changed. Of other
metadata and extra specs only the keys that filters, weighers and request filters read are kept.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import orjson
import os_resource_classes
import os_traits

from placement_sched.extensions.fleet import names as kinds
from placement_sched.extensions.fleet.names import Label, Names, is_address
from placement_sched.model import preferences
from placement_sched.model.aggregates import (
    POLICY_KEY,
    TENANT_PREFIX,
    ZONE_KEY,
    HostAggregate,
    ServerGroup,
)
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.numa import ReportedTopology
from placement_sched.model.image import LEGACY_NAMES, READERS, StoredImage
from placement_sched.model.instance import Instance
from placement_sched.operations.fleet.cloud import ProviderState, State, split_numbers
from placement_sched.scheduler.filters.extra_specs_ops import OPERATORS

#: Kinds of the names at keys of documents and fields of values. Other texts stay, except uuids,
#: custom traits and custom resource classes in them.
_KINDS = {
    **dict.fromkeys(("host", "node", "nodename", "hypervisor_hostname", "hosts"), kinds.HOST),
    **dict.fromkeys(("force_hosts", "force_nodes", "ignore_hosts", "source_host"), kinds.HOST),
    # Simulated changes.
    **dict.fromkeys(("drain", "remove", "like", "add_hosts", "remove_hosts"), kinds.HOST),
    **dict.fromkeys(("project_id", "projects", "owner", "img_owner_id", "owner_id"), kinds.PROJECT),
    **dict.fromkeys(("host_ip", "address", "ip_address", "build_near_host_ip"), kinds.ADDRESS),
    **dict.fromkeys(("cell", "cell_uuid", "target_cell"), kinds.CELL),
    **dict.fromkeys(("physnets", "physical_network"), kinds.NETWORK),
    "user_id": kinds.USER,
    "display_name": kinds.SERVER,
    "flavors": kinds.FLAVOR,
    "flavorid": kinds.FLAVOR,
    "consumer": kinds.UUID,
    "disabled_reason": kinds.REASON,
    "provider": kinds.PROVIDER,
}
#: Attributes of hosts that are names.
_ATTRIBUTES = frozenset({"host", "nodename", "hypervisor_hostname", "host_ip", "cell_uuid"})
#: Kinds of the names of values, by type or by key, and of texts at such a key.
_OWNERS: Mapping[object, str] = {
    Flavor: kinds.FLAVOR,
    StoredImage: kinds.IMAGE,
    ServerGroup: kinds.GROUP,
    HostAggregate: kinds.AGGREGATE,
    "flavor": kinds.FLAVOR,
    "image": kinds.IMAGE,
    "instance_group": kinds.GROUP,
    "aggregate": kinds.AGGREGATE,
}
#: Free texts and metadata that no filter reads.
_DROPPED = frozenset({"description", "tags", "tag", "source", "system_metadata"})

_UUID = re.compile(kinds.UUID_PATTERN)
_CUSTOM = re.compile(r"\bCUSTOM_[A-Z0-9_]+")
#: Names that the scheduler also derives from hardware.
_DERIVED = re.compile(r"CUSTOM_(PCI_[0-9A-F]{4}_[0-9A-F]{4}|PMEM_NAMESPACE_\w+|VNIC_TYPE_\w+)")
#: Parts of a text between commas, without surrounding blanks.
_PART = re.compile(r"[^\s,](?:[^,]*[^\s,])?")
#: A word of a metadata value that is no number. Booleans stay readable.
_WORD = re.compile(r"\b(?!(?:true|false|yes|no)\b)\w*[^\W\d_]\w*", re.IGNORECASE)
#: Prefixes of the metadata keys whose values are projects, separated by commas.
_PROJECT_PREFIXES = (TENANT_PREFIX, "prefer_tenant_id")
#: Metadata keys whose values are numbers, standard words or policies of the configuration.
_METADATA = re.compile(
    rf"trait:.*|{POLICY_KEY}|\w+_(allocation_ratio|weight_multiplier)|max_\w+_per_host"
)
_PROPERTIES = frozenset((*READERS, *LEGACY_NAMES, "hw_numa_cpus", "hw_numa_mem"))
#: Image properties that may be names. A weigher counts the properties that images share.
_NAME_PROPERTIES = frozenset(
    ("img_root_device_name", "root_device_name", "img_signature", "img_signature_certificate_uuid")
) | {"os_admin_user", "os_command_line", "hw_ephemeral_encryption_secret_uuid"}
#: Lists of devices, which no plugin reads.
_LIST_PROPERTIES = re.compile("(img_)?(mappings|block_device_mapping)")
#: Extra specs of hardware, and extra specs that name PCI aliases or keys of metadata.
_HARDWARE = re.compile(
    r"(hw(_\w+)?|os|quota|trust|pci_passthrough|scheduler):.*|group_policy|hide_hypervisor_id"
)
_GROUP_KEY = re.compile(r"(resources|trait)[a-zA-Z0-9_-]{0,64}:.+", re.DOTALL)
_STATS = re.compile(r"num_\w+|io_workload|failed_builds|uptime")
_PROJECT_STAT = "num_proj_"
_STATS_VARIABLE = re.compile(r"\$stats\.([^\"]+)")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
#: Hints whose values are texts: servers, server groups, numbers, keys and policies.
_HINTS = frozenset(
    (preferences.SPREAD_BY, preferences.MAX_SKEW, preferences.SPREAD_MODE, POLICY_KEY)
) | {"same_host", "different_host", "group", "cidr"}
#: Keys of PCI devices whose values are not names.
_PCI_KEYS = frozenset(
    ("vendor_id", "product_id", "numa_node", "count", "dev_type", "capability_type", "socket")
) | {"trusted", "remote_managed", "managed", "live_migratable", "rp_uuid", "rp_uuids"}


def anonymize(state: State, names: Names, default_zone: str) -> tuple[State, Names]:
    """Return an anonymised cloud, and the names with its labels.

    ``default_zone`` is a name in the configuration, and is not replaced. Raises :class:`Invalid` if
    no labels are left.
    """
    keys = frozenset(_list_compared_keys(state))
    new_names: dict[tuple[str, str], None] = {}

    def collect(kind: str, name: str) -> str:
        new_names[kind, name] = None
        return name

    # Labels have the order of names, so all names are collected first.
    Anonymizer(collect, default_zone, keys).convert_state(state)
    names = names.extend(new_names)
    return Anonymizer(names.get_label, default_zone, keys).convert_state(state), names


def build_sort_key(names: Names) -> Callable[[str], Any]:
    """Build the function that sorts labels like their names."""
    return lambda label: split_numbers(names.restore(label))


def _list_compared_keys(state: State) -> Iterator[str]:
    """Yield the keys of metadata and stats that flavors and requests name."""
    documents: list[Mapping[str, Any]] = [
        item.flavor.extra_specs for item in state.flavors.values()
    ]
    for instance in state.instances.values():
        documents.append((instance.flavor or {}).get("extra_specs") or {})
        hints = (instance.request or {}).get("scheduler_hints") or {}
        documents.append({f"{preferences.NAMESPACE}{name}": hints[name] for name in hints})
        yield from _STATS_VARIABLE.findall(orjson.dumps(hints).decode().replace("\\", ""))
    for extra_specs in documents:
        for key, value in extra_specs.items():
            scope, colon, name = key.partition(":")
            if not colon or scope == "aggregate_instance_extra_specs":
                yield name or scope
            elif scope == "capabilities":
                yield name.removeprefix("stats:")
            elif key == f"{preferences.NAMESPACE}{preferences.SPREAD_BY}":
                yield from [value] if isinstance(value, str) else value


@dataclass(frozen=True)
class Anonymizer:
    """Replacement of names by the labels that ``label(kind, name)`` returns.

    ``default_zone`` is not replaced. ``keys`` are the keys of metadata that flavors and requests
    name. Other keys that no filter reads are dropped, unless ``keeps_all``.
    """

    label: Label
    default_zone: str
    keys: frozenset[str] = frozenset()
    keeps_all: bool = False

    def convert_state(self, state: State) -> State:
        """Return a cloud with labels."""

        def convert_all(objects: Mapping[Any, Any]) -> Iterator[Any]:
            return map(self.convert, objects.values())

        def index(objects: Iterable[Any]) -> Json:
            return {item.uuid: item for item in objects}

        return State(
            resource_classes=self.convert(state.resource_classes),
            traits=self.convert(state.traits),
            flavors={str(item.flavor.flavorid): item for item in convert_all(state.flavors)},
            images=index(convert_all(state.images)),
            server_groups=index(convert_all(state.server_groups)),
            nodes=index(convert_all(state.nodes)),
            services={(item.host, item.binary): item for item in convert_all(state.services)},
            providers=index(self._convert_providers(state)),
            aggregates=index(convert_all(state.aggregates)),
            instances=index(convert_all(state.instances)),
            consumers={item.consumer: item for item in convert_all(state.consumers)},
        )

    def _convert_providers(self, state: State) -> Iterator[ProviderState]:
        for provider in state.providers.values():
            root = provider
            while root.parent is not None:
                root = state.providers[root.parent]
            kind = kinds.HOST if root.uuid in state.nodes else kinds.PROVIDER
            name, suffix = provider.name, provider.name.removeprefix(root.name)
            if suffix not in {"", name}:
                # Children of similar hosts have the same label after the label of the host.
                name = self._convert_name(kind, root.name) + self.label(kinds.CHILD, suffix)
            else:
                name = self._convert_name(kind if provider is root else kinds.PROVIDER, name)
            yield replace(self.convert(provider), name=name)

    def convert(self, value: Any, key: str = "", owner: object = "") -> Any:
        """Return a value or JSON document with labels.

        ``key`` is the key or field that has the value, and ``owner`` the type or key of the object
        that has the key.
        """
        if key in _DROPPED or (key == "metadata" and owner is Instance):
            return type(value)() if isinstance(value, frozenset | list | Mapping) else None
        if convert := self._converters.get(key):
            return value and convert(value)
        kind = _OWNERS.get(owner) if key in {"id", "name"} else _KINDS.get(key, _OWNERS.get(key))
        if isinstance(value, str):
            return self._convert_name(kind, value) if kind else self._convert_text(value)
        if isinstance(value, list | set | frozenset) or type(value) is tuple:
            return type(value)(self.convert(item, key, owner) for item in value)
        if is_dataclass(value):
            changes = {
                item.name: self.convert(getattr(value, item.name), item.name, type(value))
                for item in fields(value)
            }
            return replace(value, **changes)  # type: ignore[type-var]
        if hasattr(value, "_replace"):
            return value._replace(**self.convert(value._asdict()))
        if isinstance(value, Mapping):
            converted = {
                self._convert_text(name): self.convert(item, name, key or owner)
                for name, item in value.items()
            }
            return ReportedTopology(converted) if isinstance(value, ReportedTopology) else converted
        return value

    @cached_property
    def _converters(self) -> Mapping[str, Callable[[Any], Any]]:
        """Return the functions for the values of keys."""
        return {
            ZONE_KEY: self._convert_zone,
            "metadata": self._convert_metadata,
            "extra_specs": self._convert_extra_specs,
            "properties": self._convert_properties,
            "stats": self._convert_stats,
            "scheduler_hints": self._convert_hints,
            "device_profile": self._convert_words,
            "pci_device_pools": self._convert_pci_devices,
            "spec": self._convert_pci_devices,
        }

    # Texts

    def _convert_name(self, kind: str, name: str) -> str:
        """Return the label of a name. A uuid stays a uuid."""
        is_zone, is_flavor = kind == kinds.ZONE, kind == kinds.FLAVOR
        if not name or (is_zone and name == self.default_zone) or (is_flavor and name.isdecimal()):
            return name
        if kind == kinds.ADDRESS and not is_address(name):
            kind = kinds.VALUE
        return self.label(kinds.UUID if _UUID.fullmatch(name) else kind, name)

    def _convert_text(self, text: str) -> str:
        """Replace the uuids, traits and resource classes in a text."""
        text = _UUID.sub(lambda match: self.label(kinds.UUID, match[0]), text)
        return _CUSTOM.sub(
            lambda match: (
                match[0] if _DERIVED.fullmatch(match[0]) else self.label(kinds.CUSTOM, match[0])
            ),
            text,
        )

    def _convert_words(self, text: str) -> str:
        """Replace each word of a value that is no number."""
        return _WORD.sub(lambda match: self.label(kinds.VALUE, match[0]), text)

    def _convert_parts(self, kind: str, text: str) -> str:
        """Replace names that commas separate."""
        return _PART.sub(lambda match: self._convert_name(kind, match[0]), text)

    def _convert_zone(self, text: str) -> str:
        """Replace the names in ZONE, or in ZONE:HOST:NODE."""
        zones, *hosts = text.split(":")
        hosts = [self._convert_name(kinds.HOST, host) for host in hosts]
        return ":".join([self._convert_parts(kinds.ZONE, zones), *hosts])

    # Metadata, extra specs, image properties and stats

    def _convert_metadata(self, metadata: Mapping[str, str]) -> dict[str, str]:
        return {
            self._convert_metadata_key(key): converted
            for key, value in metadata.items()
            if (converted := value and self._convert_metadata_value(key, value)) is not None
        }

    def _convert_metadata_key(self, key: str) -> str:
        for prefix in _PROJECT_PREFIXES:
            if key.startswith(prefix) and (suffix := key.removeprefix(prefix)).strip("0123456789_"):
                return prefix + self.label(kinds.KEY, suffix)
        return self._convert_text(key)

    def _convert_metadata_value(self, key: str, value: str) -> str | None:
        """Return the value of a metadata key with labels, or None to drop the key."""
        if key == ZONE_KEY:
            return self._convert_parts(kinds.ZONE, value)
        if key.startswith(_PROJECT_PREFIXES):
            return self._convert_parts(kinds.PROJECT, value)
        if key == "instance_type" or key in _ATTRIBUTES:
            return self._convert_parts(_KINDS.get(key, kinds.FLAVOR), value)
        # Properties may have a prefix, such as isolation.os_distro.
        name = re.split(r"\W", key)[-1]
        if name in _NAME_PROPERTIES:
            return self._convert_parts(kinds.VALUE, value)
        if _METADATA.fullmatch(key) or _is_property(name):
            return value
        return self._convert_words(value) if key in self.keys or self.keeps_all else None

    def _convert_extra_specs(self, extra_specs: Mapping[str, Any]) -> Json:
        converted = {}
        for key, value in extra_specs.items():
            scope, colon, name = key.partition(":")
            new_value: Any = str(value)
            if _HARDWARE.fullmatch(key) or _GROUP_KEY.fullmatch(key):
                new_value = self._convert_text(new_value)
            elif scope == "capabilities":
                new_value = _replace_operands(new_value, partial(self._convert_attribute, name))
            elif scope == "aggregate_instance_extra_specs" or not colon:
                new_value = _replace_operands(
                    new_value, partial(self._convert_compared, name or key)
                )
            elif scope == "accel":
                new_value = self._convert_words(new_value)
            elif not self.keeps_all:
                continue
            converted[self._convert_text(key)] = new_value
        return converted

    def _convert_compared(self, key: str, value: str) -> str:
        """Replace a value that is compared with the metadata of aggregates."""
        converted = self._convert_metadata_value(key, value)
        return self._convert_words(value) if converted is None else converted

    def _convert_attribute(self, path: str, value: str) -> str:
        """Replace a value that is compared with an attribute of hosts."""
        name, _, key = path.partition(":")
        if name in _ATTRIBUTES:
            return self._convert_name(_KINDS[name], value)
        is_stat = name == "stats" or (not key and name in self.keys)
        return self._convert_words(value) if is_stat else self._convert_text(value)

    def _convert_properties(self, properties: Mapping[str, Any]) -> Json:
        converted = {}
        for key, value in properties.items():
            if key in _NAME_PROPERTIES and isinstance(value, str):
                converted[key] = self._convert_name(kinds.VALUE, value)
            elif key in _KINDS:
                converted[key] = self.convert(value, key)
            elif _GROUP_KEY.fullmatch(key) or _is_property(key) or self.keeps_all:
                converted[self._convert_text(key)] = value
        return converted

    def _convert_stats(self, stats: Mapping[str, str]) -> dict[str, str]:
        converted = {}
        for key, value in stats.items():
            if key.startswith(_PROJECT_STAT):
                project = self._convert_name(kinds.PROJECT, key.removeprefix(_PROJECT_STAT))
                converted[f"{_PROJECT_STAT}{project}"] = value
            elif _STATS.fullmatch(key) and _NUMBER.fullmatch(value):
                converted[key] = value
            elif key in self.keys:
                converted[key] = self._convert_words(value)
        return converted

    # Requests

    def _convert_hints(self, hints: Mapping[str, Any]) -> Json:
        converted = {}
        for name, value in hints.items():
            if name == "query":
                converted[name] = self._convert_query(value)
            elif name in _HINTS or name in _KINDS or name.startswith("_nova") or self.keeps_all:
                converted[name] = self.convert(value, name)
        return converted

    def _convert_query(self, query: Any) -> Any:
        """Replace names in the condition of JsonFilter, which may be a JSON text."""
        if isinstance(query, str):
            with suppress(orjson.JSONDecodeError):
                return orjson.dumps(self._convert_query(orjson.loads(query))).decode()
        if not isinstance(query, list) or not query:
            return query
        if len(query) == 1 and isinstance(query[0], str):
            return [self._convert_query(query[0])]
        operator, *operands = query
        variables = (item for item in operands if isinstance(item, str) and item.startswith("$"))
        path = next(variables, "").removeprefix("$").replace(".", ":")

        def convert_operand(operand: Any) -> Any:
            if isinstance(operand, str) and not operand.startswith("$"):
                return self._convert_attribute(path, operand)
            return self._convert_query(operand) if isinstance(operand, list) else operand

        return [operator, *map(convert_operand, operands)]

    def _convert_pci_devices(self, devices: Iterable[Mapping[str, Any]]) -> Any:
        """Replace names in PCI pools, or in the specs of PCI requests.

        No key is dropped, because pools with the fewest keys are used first.
        """
        return type(devices)(map(self._convert_pci_device, devices))  # type: ignore[call-arg]

    def _convert_pci_device(self, device: Mapping[str, Any]) -> Json:
        converted: Json = {}
        for key, value in device.items():
            if key in _PCI_KEYS or key in _KINDS:
                converted[key] = self.convert(value, key)
            elif key in {"resource_class", "traits"} and isinstance(value, str):
                converted[key] = ",".join(map(self._convert_device_name, value.split(",")))
            else:
                is_text = isinstance(value, str)
                label = self.label(kinds.KEY, key)
                converted[label] = self._convert_words(value) if is_text else value
        return converted

    def _convert_device_name(self, name: str) -> str:
        """Replace a class or trait in the spelling of nova's PCI device specs."""
        upper = name.strip().upper()
        if upper in os_resource_classes.STANDARDS or hasattr(os_traits, upper):
            return name
        is_custom = upper.startswith(os_traits.CUSTOM_NAMESPACE)
        return self._convert_text(upper if is_custom else os_traits.normalize_name(upper))


def _replace_operands(text: str, replace_value: Callable[[str], str]) -> str:
    """Replace the values after an operator, or else the whole text."""
    parts = re.split(r"(\s+)", text)
    if next(filter(str.strip, parts), "") not in OPERATORS:
        return replace_value(text)
    return "".join(
        part if not part.strip() or part in OPERATORS else replace_value(part) for part in parts
    )


def _is_property(name: str) -> bool:
    """Return whether filters read an image property of this name."""
    return name.partition(".")[0] in _PROPERTIES and not _LIST_PROPERTIES.fullmatch(name)


class NamesTranslator:
    """Translation of requests to an anonymised cloud, and of its responses."""

    def __init__(self, names: Names) -> None:
        self._anonymizer = Anonymizer(names.find_label, default_zone="", keeps_all=True)
        self._names = names

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the translator of a file of names, or raise :class:`Invalid`."""
        return cls(Names.read(file))

    def convert(self, document: Any, key: str = "") -> Any:
        """Return a request, or the value of a key, with labels."""
        return self._anonymizer.convert(document, key)

    def restore(self, document: Any) -> Any:
        """Return a response with names."""
        return self._names.restore(document)
