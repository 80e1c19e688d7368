"""A chosen host: where one instance goes, or could go instead."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from placement_sched.model.host_numa import NUMATopologyLimits

#: The microversion whose form ``allocation_request`` has.
ALLOCATION_REQUEST_VERSION = "1.39"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One host for one instance, as ``select_destinations`` answers it (contract §4).

    ``allocation_request`` is what ``PUT /allocations`` takes: allocations and mappings. None where
    nothing is to be allocated: the instance is rebuilt where it is.
    """

    service_host: str
    nodename: str
    compute_node_uuid: str
    cell_uuid: str | None
    availability_zone: str
    weight: float
    allocation_request: Mapping[str, Any] | None
    limits: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the entry as the contract shows it."""
        return {
            "service_host": self.service_host,
            "nodename": self.nodename,
            "compute_node_uuid": self.compute_node_uuid,
            "cell_uuid": self.cell_uuid,
            "availability_zone": self.availability_zone,
            "limits": {name: _told(limit) for name, limit in self.limits.items()},
            "weight": self.weight,
            "allocation_request": self.allocation_request,
            "allocation_request_version": (
                None if self.allocation_request is None else ALLOCATION_REQUEST_VERSION
            ),
        }


def _told(limit: Any) -> Any:
    """Return a limit as JSON has it; as text what JSON has not and a stranger's filter wrote."""
    if isinstance(limit, NUMATopologyLimits):
        return limit.as_json()
    try:
        orjson.dumps(limit)
    except TypeError:
        return str(limit)
    return limit
