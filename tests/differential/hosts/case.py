# SPDX-License-Identifier: Apache-2.0
"""A cloud of hosts, a request, and the options under which both judge it: plain values."""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

#: What the clocks of both sides show.
NOW = datetime(2026, 1, 1, 12, 0, 0)

#: Those of nova 34 that are compared. The others are of cells and devices.
FILTERS = (
    "AggregateImagePropertiesIsolation",
    "AggregateInstanceExtraSpecsFilter",
    "AggregateIoOpsFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateNumInstancesFilter",
    "AggregateTypeAffinityFilter",
    "AllHostsFilter",
    "ComputeCapabilitiesFilter",
    "ComputeFilter",
    "DifferentHostFilter",
    "ImagePropertiesFilter",
    "IoOpsFilter",
    "IsolatedHostsFilter",
    "JsonFilter",
    "MetricsFilter",
    "NumInstancesFilter",
    "SameHostFilter",
    "ServerGroupAffinityFilter",
    "ServerGroupAntiAffinityFilter",
    "SimpleCIDRAffinityFilter",
)
WEIGHERS = (
    "BuildFailureWeigher",
    "CPUWeigher",
    "CrossCellWeigher",
    "DiskWeigher",
    "HypervisorVersionWeigher",
    "ImagePropertiesWeigher",
    "IoOpsWeigher",
    "MetricsWeigher",
    "NumInstancesWeigher",
    "RAMWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
)
#: Those that are not compared yet.
NOT_YET = ("NUMATopologyFilter", "PciPassthroughFilter", "PCIWeigher")

Document = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """``hosts`` have a ``report``, as hosts send it, and what is known of their ``service``.

    ``aggregates`` have ``metadata`` and ``hosts``; ``instances`` ``uuid``, ``host``,
    ``project_id`` and ``image``. ``chain`` names the filters that run one after the other.
    """

    hosts: tuple[Document, ...]
    request_spec: Document
    aggregates: tuple[Document, ...] = ()
    instances: tuple[Document, ...] = ()
    options: Document = field(default_factory=dict)
    chain: tuple[str, ...] = ()

    def as_json(self) -> Document:
        told = {"now": NOW.isoformat(), "filters": FILTERS, "weighers": WEIGHERS}
        return {**told, **asdict(self)}

    def as_saved(self) -> Document:
        return asdict(self)

    @classmethod
    def from_saved(cls, kept: Document) -> Self:
        lists = ("hosts", "aggregates", "instances", "chain")
        return cls(**{**kept, **{name: tuple(kept[name]) for name in lists}})

    def host_and_node_of(self, place: int) -> str:
        report = self.hosts[place]["report"]
        return f"{report['host']}/{report['hypervisor_hostname']}"
