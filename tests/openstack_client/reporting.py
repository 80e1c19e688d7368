# SPDX-License-Identifier: Apache-2.0
"""Reports of hosts to a server of the client tests, and recorded instances."""

from uuid import uuid4

from tests.support.clouds import uuid_of
from tests.support.servers import Server


def report_host(server: Server, host: str, **fields: object) -> str:
    """Report a host, and return the uuid of its node."""
    uuid = uuid_of(host)
    body = {
        "host": host,
        "hypervisor_hostname": host,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002000,
        "host_ip": "192.0.2.7",
        "vcpus": 8,
        "vcpus_used": 2,
        "memory_mb": 16384,
        "memory_mb_used": 512,
        "local_gb": 100,
        **fields,
    }
    server.request_json("PUT", f"/scheduler/v1/compute_nodes/{uuid}", body)
    return uuid


def record_instance(server: Server, host: str, name: str) -> str:
    """Record an instance on a host, and return its path."""
    address = f"/scheduler/v1/instances/{uuid4()}"
    server.request_json("PUT", address, {"host": host, "node": host, "display_name": name})
    return address


def read_traits(server: Server, uuid: str) -> set[str]:
    """Return the traits of a provider."""
    path = f"/placement/resource_providers/{uuid}/traits"
    return set(server.request_json("GET", path, version="placement 1.6")["traits"])
