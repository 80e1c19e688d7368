# SPDX-License-Identifier: Apache-2.0
"""Host states, requests and settings for tests of plugins, without a database."""

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from placement_sched.config.conf import read_files
from placement_sched.config.settings import Conf, Settings
from placement_sched.explain.phrases import build_reason, describe_rejection, format_reason
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.compute_node import Service
from placement_sched.model.instance import HostInstance
from placement_sched.model.request_spec import RequestSpec, parse_request_spec
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_state import HostState, build_service_view
from placement_sched.scheduler.plugins import make_full_conf, read_settings
from tests.support.clouds import NOW
from tests.support.rejection_kinds import find_undocumented_values


class ManualClock:
    """A clock with the time ``now``, which the test sets."""

    def __init__(self, now: Any = NOW) -> None:
        """Begin at this time."""
        self.now = now

    def __call__(self) -> Any:
        """Return the time."""
        return self.now


@lru_cache(maxsize=4)
def _read_conf(_environment: object) -> Conf:
    return read_files(make_full_conf())


def build_settings(**options: Any) -> Settings:
    """Return the default settings with ``group__option`` values."""
    environment = tuple(sorted(item for item in os.environ.items() if item[0].startswith("OS_")))
    settings = Settings.from_conf(_read_conf(environment))
    values = {key.replace("__", "."): value for key, value in options.items()}
    return settings.with_overrides(values, "nova.conf")  # the source in messages


def read_settings_text(folder: Path, text: str) -> Settings:
    """Return the settings of a configuration file with this text."""
    file = folder / "nova.conf"
    file.write_text(text)
    return read_settings([str(file)], make_full_conf())


def build_aggregate(number: int = 1, *hosts: str, **metadata: str) -> HostAggregate:
    """Return aggregate ``agg<number>``, whose uuid is the number."""
    return HostAggregate(
        id=number,
        uuid=str(UUID(int=number)),
        name=f"agg{number}",
        hosts=frozenset(hosts),
        metadata=metadata,
    )


def build_aggregates(*metadata: dict[str, str]) -> tuple[HostAggregate, ...]:
    """Return an aggregate for each metadata."""
    return tuple(build_aggregate(number, **each) for number, each in enumerate(metadata, start=1))


def build_service(**changes: Any) -> Mapping[str, Any]:
    """Return a compute service that is enabled and was seen just now."""
    fields = {
        "id": 1,
        "uuid": str(UUID(int=1)),
        "host": "cn1",
        "binary": "nova-compute",
        "disabled": False,
        "disabled_reason": None,
        "forced_down": False,
        "last_seen_up": NOW,
        "updated_at": NOW,
    }
    return build_service_view(Service(**(fields | changes)))


def build_host_state(name: str = "cn1", node: str | None = None, **attributes: Any) -> HostState:
    """Return a host that is up, with 8 CPUs, 16 GB and 100 GB of disk, half of each free."""
    fields = {
        "service": build_service(host=name),
        "vcpus_total": 8,
        "vcpus_used": 4,
        "cpu_allocation_ratio": 1.0,
        "total_usable_ram_mb": 16384,
        "free_ram_mb": 8192,
        "total_usable_disk_gb": 100,
        "free_disk_mb": 51200,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 1005003,
        "supported_instances": [["x86_64", "kvm", "hvm"], ["i686", "qemu", "hvm"]],
    }
    return HostState(name, node or name, **(fields | attributes))


def build_spec(
    extra_specs: dict[str, str] | None = None,
    properties: dict[str, Any] | None = None,
    **fields: Any,
) -> RequestSpec:
    """Return a request for 1 CPU, 512 MB and 1 GB."""
    flavor = {
        "name": "m1.tiny",
        "vcpus": 1,
        "memory_mb": 512,
        "root_gb": 1,
        "extra_specs": extra_specs or {},
    }
    return parse_request_spec(
        {"flavor": flavor, "image": {"properties": properties or {}}} | fields
    )


def build_instances(host: str, *uuids: str, **fields: Any) -> dict[str, HostInstance]:
    """Return instances by uuid, as ``host_state.instances`` has them."""
    return {uuid: HostInstance(uuid=uuid, host=host, node=host, **fields) for uuid in uuids}


def find_rejection(plugin: BaseHostFilter, host: HostState, spec: RequestSpec | None = None) -> Any:
    """Return the reason of a filter's rejection, or None.

    Also check ``host_passes``, that a reader of the rejection in JSON builds the same reason, and
    that the API reference documents its values.
    """
    spec = spec or build_spec()
    rejection = plugin.rejection(host, spec)
    assert plugin.host_passes(host, spec) is (rejection is None)
    if rejection is None:
        return None
    reason = describe_rejection(rejection)
    entry = orjson.loads(orjson.dumps(build_reason(rejection)))
    assert format_reason(entry) == reason
    assert find_undocumented_values(entry) == set()
    return reason
