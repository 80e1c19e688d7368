"""One measured figure of a host, as its monitors report it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placement_sched.model.nova_object import NovaObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(NovaObject):
    """Name (of nova's enumeration), value, source and time, as nova's MonitorMetric has them.

    A metric that has a value for each NUMA node has ``numa_membw_values``, by the node's number
    as text, and commonly no ``value``.
    """

    name: str
    value: int | None = None
    numa_membw_values: Mapping[str, int] | None = None
    source: str | None = None
    timestamp: Any = None
