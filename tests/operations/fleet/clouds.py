# SPDX-License-Identifier: Apache-2.0
"""Random clouds as fleet documents."""

from hypothesis import strategies as st

from placement_sched.model.names import is_printable_name

_RANDOM_HOST_NAMES = st.sampled_from(
    ["a", "b1", "b2", "b10", "x-[1]", "Ω {root}", "12", "yes", "~", "s p"]
)
_RANDOM_TEXTS = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cf", "Cn", "Co", "Zl", "Zp")),
    min_size=1,
    max_size=8,
).filter(is_printable_name)
_RANDOM_TRAITS = st.lists(
    st.sampled_from(["HW_CPU_X86_AVX", "CUSTOM_ONE", "CUSTOM_TWO"]), unique=True, max_size=3
)
_RANDOM_UUIDS = st.uuids(version=4).map(str)
_RANDOM_INVENTORIES = st.dictionaries(
    st.sampled_from(["VGPU", "PCPU", "CUSTOM_THING"]),
    st.fixed_dictionaries(
        {"total": st.integers(2, 100)},
        optional={
            "reserved": st.integers(0, 2),
            "min_unit": st.integers(1, 2),
            "max_unit": st.integers(5, 100),
            "step_size": st.integers(1, 2),
            "allocation_ratio": st.sampled_from([0.5, 1.0, 16.0]),
        },
    ),
    max_size=2,
)
_RANDOM_TIMES = st.sampled_from(
    ["2026-01-01T11:00:00", "2026-01-01T12:00:00", "2025-12-01T00:00:00"]
)
_RANDOM_METADATA = st.dictionaries(_RANDOM_TEXTS, _RANDOM_TEXTS, max_size=2)
_RANDOM_AGGREGATE_METADATA = st.dictionaries(
    st.from_regex(r"[a-zA-Z0-9:_.-]( ?[a-z0-9]){0,4}", fullmatch=True), _RANDOM_TEXTS
)
#: Valid host names in requests. Only these hosts are put into aggregates.
_VALID_HOST_NAMES = {"a", "b1", "b2", "b10", "12", "yes"}


def escape_host_pattern(name: str) -> str:
    """Return the pattern that matches only this name."""
    return "".join(f"\\{letter}" if letter in "\\[]{}" else letter for letter in name)


_RANDOM_NODE_REPORTS = st.fixed_dictionaries(
    # Enough for the flavors of the instances.
    {
        "vcpus": st.integers(1, 64),
        "memory_mb": st.integers(1000, 9000),
        "local_gb": st.integers(1, 500),
    },
    optional={
        "memory_mb_used": st.integers(0, 900),
        "free_ram_mb": st.none() | st.integers(-5, 900),
        "free_disk_gb": st.none() | st.integers(-5, 900),
        "disk_available_least": st.none() | st.integers(-5, 900),
        "cpu_allocation_ratio": st.sampled_from([1.0, 16.0]),
        "cell_uuid": st.none() | st.just("cccccccc-0000-4000-8000-000000000001"),
        "hypervisor_type": st.sampled_from(["QEMU", "12"]),
        "hypervisor_version": st.integers(0, 8002000),
        "host_ip": st.none() | st.just("192.0.2.7"),
        "cpu_info": st.sampled_from(
            [{"arch": "x86_64"}, '{"a":1}', {"f": 1e-07}, {"y": {"on": True, "1": [None, "1"]}}]
        ),
        "supported_hv_specs": st.just([["x86_64", "kvm", "hvm"]]),
        "stats": st.dictionaries(
            st.sampled_from(["num_instances", "io_workload"]), st.integers(0, 9), max_size=2
        )
        | st.just({"uptime": "007", "x": "1e3", "failed_builds": "0"}),
        "metrics": st.just(
            [
                {"name": "cpu.percent", "value": 7, "timestamp": "2026-01-01T11:00:00"},
                {"name": "cpu.idle.percent", "value": 0.93},
                {"name": "numa.membw.current", "numa_membw_values": {"0": 10, "1": 43}},
            ]
        ),
        "pci_device_pools": st.just(
            [{"vendor_id": "8086", "product_id": "1_0", "count": 2, "tag": "010"}]
        ),
        "numa_topology": st.just({"cells": [{"id": 0, "cpuset": [0, 1], "memory": 512}]}),
        "reserved": st.just({"MEMORY_MB": 512}),
        "last_seen_up": _RANDOM_TIMES,
        "traits": _RANDOM_TRAITS,
        "inventories": _RANDOM_INVENTORIES,
    },
)


@st.composite
def _draw_hosts(draw, names):
    hosts = []
    for name in names:
        host = {"host": escape_host_pattern(name), **draw(_RANDOM_NODE_REPORTS)}
        if draw(st.booleans()):
            host["uuid"] = draw(_RANDOM_UUIDS)
        if draw(st.integers(0, 9)) == 0:
            host["provider"] = False
        elif draw(st.booleans()):
            host["providers"] = [
                {
                    "name": pattern,
                    "inventories": draw(_RANDOM_INVENTORIES),
                    "traits": draw(_RANDOM_TRAITS),
                    "providers": draw(st.sampled_from([[], [{"name": "{parent}_below"}]])),
                }
                for pattern in draw(st.sampled_from([["{root}_n[0-1]"], ["{root}x", "y {root}"]]))
            ]
        hosts.append(host)
    return hosts


@st.composite
def draw_fleet_document(draw):
    """Return a fleet document that can be loaded into an empty database."""
    names = draw(st.lists(_RANDOM_HOST_NAMES, unique=True, max_size=5))
    hosts = draw(_draw_hosts(names))
    flavors = [
        {
            "name": name,
            **draw(
                st.fixed_dictionaries(
                    {"vcpus": st.integers(1, 2), "memory_mb": st.integers(1, 5)},
                    optional={
                        "id": _RANDOM_UUIDS | st.just(f"{name}-id"),
                        "swap": st.integers(0, 9),
                        "rxtx_factor": st.sampled_from([1.0, 0.5, 3.25]),
                        "is_public": st.booleans(),
                        "description": _RANDOM_TEXTS,
                        "extra_specs": _RANDOM_AGGREGATE_METADATA,
                        "projects": st.lists(_RANDOM_TEXTS, unique=True, max_size=2),
                    },
                )
            ),
        }
        for name in draw(st.lists(st.sampled_from(["f", "007", "12"]), unique=True))
    ]
    images = draw(
        st.lists(
            st.fixed_dictionaries(
                {"name": st.none() | st.sampled_from(["i", "j", "3"]), "id": _RANDOM_UUIDS},
                optional={
                    "status": st.just("active"),
                    "visibility": st.sampled_from(["public", "private"]),
                    "owner": _RANDOM_TEXTS,
                    "size": st.integers(0, 2**40),
                    "min_ram": st.integers(0, 9),
                    "protected": st.booleans(),
                    "tags": st.lists(_RANDOM_TEXTS, unique=True, max_size=2),
                    "properties": _RANDOM_METADATA | st.just({"os": "win\n7", "n": "010"}),
                },
            ),
            max_size=3,
        )
    )
    aggregates = [
        {
            "name": name,
            "metadata": draw(_RANDOM_AGGREGATE_METADATA),
            "hosts": [name for name in names if name in _VALID_HOST_NAMES and draw(st.booleans())],
            **draw(
                st.fixed_dictionaries({}, optional={"uuid": _RANDOM_UUIDS})
                if name != "zone"
                else st.just({"availability_zone": "z"})
            ),
        }
        for name in ("zone", "q")
    ]
    groups = [
        {
            "name": name,
            "policy": "anti-affinity",
            **draw(
                st.fixed_dictionaries(
                    {"uuid": _RANDOM_UUIDS} if name == "g" else {},
                    optional={
                        "rules": st.just({"max_server_per_host": 2}),
                        "project": _RANDOM_TEXTS,
                        "user": _RANDOM_TEXTS,
                    },
                )
            ),
        }
        for name in draw(st.sampled_from([[], ["g"], ["g", "h"], ["g", "g"]]))
    ]
    services = [
        {
            "host": escape_host_pattern(name),
            "status": "disabled",
            "disabled_reason": draw(_RANDOM_TEXTS),
        }
        for name in names
        if draw(st.integers(0, 3)) == 0
    ]
    instances = [
        {
            "name": f"vm[{index}-{index + 1}]",
            **draw(
                st.fixed_dictionaries(
                    {
                        "host": st.sampled_from([escape_host_pattern(name) for name in names])
                        if names
                        else st.none()
                    },
                    optional={
                        "project": st.none() | _RANDOM_TEXTS,
                        "user": _RANDOM_TEXTS,
                        "vm_state": st.none() | st.just("error"),
                        "task_state": st.just("resize_prep"),
                        "flavor": st.sampled_from([flavor["name"] for flavor in flavors])
                        if flavors
                        else st.just({"vcpus": 1, "memory_mb": 2, "extra_specs": {"a": "1"}}),
                        "image": st.sampled_from([image["id"] for image in images])
                        if images
                        else st.just({"id": "x"}),
                        "server_group": st.sampled_from([group.get("uuid") for group in groups])
                        if groups
                        else st.none(),
                        "metadata": _RANDOM_METADATA,
                        "system_metadata": st.dictionaries(
                            _RANDOM_TEXTS, st.none() | st.just("") | _RANDOM_TEXTS, max_size=2
                        ),
                        "request": st.fixed_dictionaries(
                            {"is_bfv": st.booleans()},
                            optional={
                                "availability_zone": st.none() | _RANDOM_TEXTS,
                                "scheduler_hints": st.just({"different_host": ["x"], "a": "b"}),
                            },
                        ),
                        "allocations": st.just({}),
                        "consumer": st.just({"project": "other", "user": "u", "type": None}),
                    },
                )
            ),
        }
        for index in range(0, draw(st.integers(0, 6)), 2)
    ]
    return {
        "resource_classes": ["CUSTOM_ALONE"],
        "traits": ["CUSTOM_ALONE"],
        "flavors": flavors,
        "images": images,
        "server_groups": groups,
        "aggregates": aggregates,
        "hosts": hosts,
        "services": services,
        "providers": [
            {
                "name": "shared[1-2]",
                "inventories": {"DISK_GB": {"total": 100}},
                "aggregates": draw(st.lists(_RANDOM_UUIDS, max_size=2)),
                "providers": [{"name": "{root}-below", "traits": draw(_RANDOM_TRAITS)}],
            }
        ],
        "instances": instances,
        "allocations": [
            {
                "consumer": draw(_RANDOM_UUIDS),
                "project": "p",
                "user": "u",
                "allocations": {"shared1": {"DISK_GB": draw(st.integers(1, 9))}},
            }
        ],
    }
