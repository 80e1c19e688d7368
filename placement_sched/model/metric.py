"""One measured figure of a host, as its monitors report it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Name (of nova's enumeration), value, source and time, as nova's MonitorMetric has them."""

    name: str
    value: int
    source: str | None = None
    timestamp: Any = None
