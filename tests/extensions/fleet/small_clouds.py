# SPDX-License-Identifier: Apache-2.0
"""Small clouds as fleet files. Each of them once had a wrong answer."""

_SEEN = 'last_seen_up: "2099-01-01T00:00:00Z"'
_POOL_UUID = "00000000-0000-4000-8000-000000000001"
_OTHER_POOL_UUID = "00000000-0000-4000-8000-000000000002"
_RATIOS = "cpu_allocation_ratio: 1.0, ram_allocation_ratio: 1.0"


def _build_shared_pools(second_pool: str) -> str:
    """Return two hosts and two pools of shared disks."""
    pools = f"{_POOL_UUID}, {second_pool}"
    return f"""
hosts:
- {{host: a, vcpus: 16, memory_mb: 65536, local_gb: 0, {_SEEN},
   provider_aggregates: [{pools}]}}
- {{host: b, vcpus: 16, memory_mb: 65536, local_gb: 0, {_SEEN},
   provider_aggregates: [{_POOL_UUID}]}}
providers:
- {{name: p1, inventories: {{DISK_GB: {{total: 100}}}}, traits: [MISC_SHARES_VIA_AGGREGATE],
   aggregates: [{_POOL_UUID}]}}
- {{name: p2, inventories: {{DISK_GB: {{total: 60}}}}, traits: [MISC_SHARES_VIA_AGGREGATE],
   aggregates: [{second_pool}]}}
aggregates:
- {{name: az1, availability_zone: az1, hosts: a}}
- {{name: az2, availability_zone: az2, hosts: b}}
"""


def _build_numa(root: str, children: str) -> str:
    """Return a host whose children have the inventories that the root lacks."""
    return f"hosts: [{{host: cn1, vcpus: 16, memory_mb: 16384, {_SEEN}, {root}, {children}}}]"


SMALL_CLOUDS = {
    "a pool outside the zone": f"""
hosts:
- {{host: cn1, vcpus: 4, memory_mb: 8192, local_gb: 0, {_SEEN},
   provider_aggregates: [{_POOL_UUID}, 00000000-0000-4000-8000-0000000000a1]}}
- {{host: cn2, vcpus: 4, memory_mb: 8192, local_gb: 0, {_SEEN},
   provider_aggregates: [{_POOL_UUID}]}}
- {{host: cn3, vcpus: 4, memory_mb: 8192, local_gb: 50, {_SEEN}}}
providers:
- {{name: pool, inventories: {{DISK_GB: {{total: 100}}}}, traits: [MISC_SHARES_VIA_AGGREGATE],
   aggregates: [{_POOL_UUID}]}}
aggregates:
- {{name: az1, uuid: 00000000-0000-4000-8000-0000000000a1, availability_zone: az1, hosts: cn1}}
- {{name: az2, uuid: 00000000-0000-4000-8000-0000000000a2, availability_zone: az2, hosts: cn3}}
""",
    "an affinity group": f"""
hosts: [{{host: "cn[1-3]", vcpus: 4, memory_mb: 8192, local_gb: 100, {_SEEN}}}]
flavors: [{{name: small, vcpus: 1, memory_mb: 1024, root_gb: 10}}]
server_groups:
- {{name: together, uuid: 00000000-0000-4000-8000-0000000000b1, policy: affinity, project: p,
   user: u}}
instances: [{{name: i1, host: cn1, flavor: small, project: p, user: u, server_group: together}}]
""",
    "two pools": _build_shared_pools(_OTHER_POOL_UUID),
    "two pools of the same hosts": _build_shared_pools(_POOL_UUID),
    "a child without memory": f"""
hosts:
- {{host: cn1, vcpus: 4, memory_mb: 8192, local_gb: 100, {_SEEN},
   inventories: {{VGPU: {{total: 1}}}}, providers:
   [{{name: child, inventories: {{SRIOV_NET_VF: {{total: 4}}}}, traits: [CUSTOM_FAST]}}]}}
""",
    "a child with a trait": f"""
hosts:
- {{host: cn1, vcpus: 4, memory_mb: 8192, local_gb: 100, {_SEEN}, providers:
   [{{name: child, inventories: {{SRIOV_NET_VF: {{total: 4}}}}, traits: [CUSTOM_FAST]}}]}}
""",
    "CPUs of two children": _build_numa(
        "inventories: {VCPU: null}",
        "providers: [{name: n0, inventories: {VCPU: {total: 8}}},"
        " {name: n1, inventories: {VCPU: {total: 6}}}]",
    ),
    "memory of two children": _build_numa(
        "inventories: {MEMORY_MB: null}",
        'providers: [{name: "{root}_n[0-1]", inventories: {MEMORY_MB: {total: 8192}}}]',
    ),
    "a licensed aggregate": f"""
traits: [CUSTOM_WIN]
hosts: [{{host: cn1, vcpus: 4, memory_mb: 8192, local_gb: 100, {_SEEN}}}]
aggregates: [{{name: lic, metadata: {{trait:CUSTOM_WIN: required}}, hosts: cn1}}]
""",
    "a disabled host with NUMA nodes": f"""
hosts:
- {{host: cn1, vcpus: 4, memory_mb: 8192, local_gb: 100, {_SEEN}, numa_topology:
   {{cells: [{{id: 0, cpuset: [0, 1, 2, 3], pcpuset: [0, 1, 2, 3], memory: 8192}}]}}}}
services: [{{host: cn1, status: disabled, disabled_reason: DIMM of cn1}}]
""",
    "two hosts": f"""
hosts:
- {{host: "cn[1-2]", vcpus: 4, memory_mb: 8192, local_gb: 100, cpu_allocation_ratio: 1.0, {_SEEN}}}
""",
    "a limit per server": f"""
flavors:
- {{name: big, vcpus: 1, memory_mb: 8192, root_gb: 1}}
- {{name: small, vcpus: 1, memory_mb: 1024, root_gb: 1}}
hosts:
- {{host: d, vcpus: 1, memory_mb: 8192, local_gb: 100, {_RATIOS}, {_SEEN}}}
- {{host: a, vcpus: 16, memory_mb: 8192, local_gb: 100, {_RATIOS}, {_SEEN}}}
- {{host: b, vcpus: 16, memory_mb: 8192, local_gb: 100, {_RATIOS}, {_SEEN}}}
- {{host: c, vcpus: 64, memory_mb: 65536, local_gb: 1000, {_RATIOS}, {_SEEN},
   inventories: {{MEMORY_MB: {{total: 65536, max_unit: 4096}}}}}}
instances: [{{name: i0, host: d, flavor: big, project: p, user: u}}]
""",
    "a full host": f"""
flavors:
- {{name: five, vcpus: 1, memory_mb: 5120, root_gb: 1}}
- {{name: four, vcpus: 1, memory_mb: 4096, root_gb: 1}}
hosts:
- {{host: d, vcpus: 4, memory_mb: 18432, local_gb: 100, {_RATIOS}, {_SEEN}}}
- {{host: a, vcpus: 64, memory_mb: 15360, local_gb: 100, {_RATIOS}, {_SEEN}}}
- {{host: b, vcpus: 64, memory_mb: 8192, local_gb: 100, {_RATIOS}, {_SEEN}}}
instances:
- {{name: "i[0-1]", host: d, flavor: five, project: p, user: u}}
- {{name: "i[2-3]", host: d, flavor: four, project: p, user: u}}
""",
    "servers of two children": f"""
hosts:
- {{host: cn1, vcpus: 8, memory_mb: 16384, local_gb: 100, {_SEEN}, inventories: {{MEMORY_MB: null}},
   providers: [{{name: numa0, inventories: {{MEMORY_MB: {{total: 16384}}}}}}]}}
- {{host: cn2, vcpus: 8, memory_mb: 16384, local_gb: 100, {_SEEN}, inventories: {{MEMORY_MB: null}},
   providers: [{{name: numa2, inventories: {{MEMORY_MB: {{total: 16384}}}}}}]}}
flavors: [{{name: small, vcpus: 1, memory_mb: 4096, root_gb: 10}}]
instances:
- {{name: "i[1-2]", host: cn1, flavor: small, project: p, user: u,
   allocations: {{cn1: {{VCPU: 1, DISK_GB: 10}}, numa0: {{MEMORY_MB: 4096}}}}}}
""",
}
