# SPDX-License-Identifier: Apache-2.0
"""Hosts, a request and options, as plain values for both sides."""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

#: The time on both sides.
NOW = datetime(2026, 1, 1, 12, 0, 0)

#: Compared filters of nova 34.
FILTERS = (
    "AggregateImagePropertiesIsolation", "AggregateInstanceExtraSpecsFilter",
    "AggregateIoOpsFilter", "AggregateMultiTenancyIsolation", "AggregateNumInstancesFilter",
    "AggregateTypeAffinityFilter", "AllHostsFilter", "ComputeCapabilitiesFilter",
    "ComputeFilter", "DifferentHostFilter", "ImagePropertiesFilter", "IoOpsFilter",
    "IsolatedHostsFilter", "JsonFilter", "MetricsFilter", "NumInstancesFilter",
    "SameHostFilter", "ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter",
    "SimpleCIDRAffinityFilter",
)  # fmt: skip
WEIGHERS = (
    "BuildFailureWeigher", "CPUWeigher", "CrossCellWeigher", "DiskWeigher",
    "HypervisorVersionWeigher", "ImagePropertiesWeigher", "IoOpsWeigher", "MetricsWeigher",
    "NumInstancesWeigher", "RAMWeigher", "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
)  # fmt: skip
#: Filters and weighers of nova 34 that this comparison leaves out.
UNCOMPARED_PLUGINS = ("NUMATopologyFilter", "PciPassthroughFilter", "PCIWeigher")

JsonDocument = dict[str, Any]


@dataclass(frozen=True)
class HostsCase:
    """A case for both sides.

    Each of the ``hosts`` has a ``report`` and a ``service``. Aggregates have ``metadata`` and
    ``hosts``. Instances have ``uuid``, ``host``, ``project_id`` and ``image``. ``chain`` names
    filters that run in sequence.
    """

    hosts: tuple[JsonDocument, ...]
    request_spec: JsonDocument
    aggregates: tuple[JsonDocument, ...] = ()
    instances: tuple[JsonDocument, ...] = ()
    options: JsonDocument = field(default_factory=dict)
    chain: tuple[str, ...] = ()

    def as_json(self) -> JsonDocument:
        return {"now": NOW.isoformat(), "filters": FILTERS, "weighers": WEIGHERS, **asdict(self)}

    def to_saved_json(self) -> JsonDocument:
        return asdict(self)

    @classmethod
    def from_saved_json(cls, kept: JsonDocument) -> Self:
        lists = ("hosts", "aggregates", "instances", "chain")
        return cls(**{**kept, **{name: tuple(kept[name]) for name in lists}})

    def format_host_and_node(self, place: int) -> str:
        report = self.hosts[place]["report"]
        return f"{report['host']}/{report['hypervisor_hostname']}"
