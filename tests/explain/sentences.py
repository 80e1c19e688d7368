# SPDX-License-Identifier: Apache-2.0
"""Values of each kind of rejection, with the sentences about them."""

AGGREGATE = "5d1e3c2b-0000-4000-8000-000000000001"
HOST_AMOUNTS = {"unit": "MB", "capacity": 1500.0, "total": 1000, "allocation_ratio": 1.5}
VCPU_AMOUNTS = {
    "resource_class": "VCPU",
    "unit": "VCPU",
    "capacity": 11.0,
    "total": 10,
    "allocation_ratio": 1.1,
}
FAILOVER_CAPACITY = {
    "flavor": "m1.small",
    "requested": 9,
    "actual": 3,
    "too_many": 4,
    "stuck": 2,
    "domain_type": "host",
    "domain": "cn1",
    "age_s": 17,
}
SKEW = {"key": "rack", "domain": "r1", "emptiest": "r3", "requested": 1, "actual": 2}

#: Values and sentences of rejections for NUMA nodes.
NUMA_SENTENCES = [
    (
        {"cause": "threads"},
        "thread policy require requested, no core of the host has several threads",
    ),
    (
        {"cause": "nodes", "requested": 1, "actual": 0},
        "1 NUMA node requested, the host reports no NUMA topology",
    ),
    ({"cause": "nodes", "requested": 3, "actual": 2}, "3 NUMA nodes requested, the host has 2"),
    (
        {
            "cause": "arrangement",
            "options": [
                {"instance_node": 0, "host_nodes": [0, 1]},
                {"instance_node": 1, "host_nodes": [1]},
            ],
        },
        (
            "the NUMA nodes of the instance do not fit all at once: node 0 only on NUMA nodes 0, "
            "1; node 1 only on NUMA node 1"
        ),
    ),
    (
        {"cause": "candidates", "incomplete": True},
        (
            "no allocation candidate remains. Not all sets of NUMA nodes were tried, since the "
            "search for a request is bounded"
        ),
    ),
    (
        {"cause": "devices", "requested": 2, "devices": [{"host_nodes": [3], "count": 1}]},
        (
            "2 PCI requests cannot be served near NUMA nodes with enough capacity. Free devices: 1 "
            "at NUMA node 3"
        ),
    ),
    (
        {
            "cause": "networks",
            "networks": [{"name": "physnet0", "host_nodes": [0, 2]}],
            "tunnels": [1],
        },
        (
            "the NUMA nodes with enough capacity lack requested networks: physnet0 at NUMA nodes "
            "0, 2, tunnels at NUMA node 1"
        ),
    ),
    (
        {"cause": "networks", "networks": [], "tunnels": [0]},
        "the NUMA nodes with enough capacity lack requested networks: tunnels at NUMA node 0",
    ),
    (
        {
            "cause": "node",
            "instance_node": 1,
            "parts": [
                {
                    "kind": "numa_topology",
                    "cause": "memory",
                    "host_nodes": [0, 1],
                    "requested": 1024,
                    "total": 512,
                },
                {"kind": "numa_topology", "cause": "no_dedicated_cpus", "host_nodes": [2]},
            ],
        },
        (
            "NUMA node 1 of the instance fits on no NUMA node of the host: NUMA nodes 0, 1: 1024 "
            "MB requested, 512 of 512 MB in all; NUMA node 2: CPU policies require pinned CPUs, "
            "none requested"
        ),
    ),
    (
        {"cause": "memory", "requested": 9, "free": 4.5, "total": 6, "allocation_ratio": 1.5},
        "9 MB requested, 4.5 MB free of 6 x 1.5",
    ),
    ({"cause": "memory", "requested": 9, "free": 4, "total": 6}, "9 MB requested, 4 of 6 MB free"),
    (
        {
            "cause": "pages",
            "requested": 9,
            "page_size": "large",
            "pages": [{"size_kb": 2048, "total": 3, "free": 1, "memory_mb": 2}],
        },
        "9 MB in large pages requested, 2 MB in 1 of 3 pages of 2048 KiB free",
    ),
    (
        {"cause": "pages", "requested": 9, "page_size": 2048, "pages": []},
        "pages of 2048 KiB requested, the node has none",
    ),
    (
        {"cause": "pages", "requested": 9, "pages": [{"size_kb": 4, "total": 512, "memory_mb": 2}]},
        "9 MB requested, 2 MB in 512 of 512 pages of 4 KiB in all",
    ),
    ({"cause": "shared_cpus", "requested": 3, "total": 2}, "3 shared CPUs requested, 2 in all"),
    (
        {"cause": "shared_cpus", "requested": 3, "free": 1.5, "total": 2, "allocation_ratio": 2.0},
        "3 shared CPUs requested, 1.5 free of 2 x 2",
    ),
    (
        {"cause": "dedicated_cpus", "requested": 3, "free": 1, "total": 2},
        "3 dedicated CPUs requested, 1 of 2 dedicated CPUs free",
    ),
    (
        {"cause": "dedicated_cpus", "requested": 3, "free": 1, "total": 2, "emulator_cpus": 1},
        "3 dedicated CPUs and 1 for the emulator requested, 1 of 2 dedicated CPUs free",
    ),
    (
        {"cause": "sibling_threads", "requested": 3, "free": 2},
        "3 dedicated CPUs on sibling threads requested, 2 free",
    ),
    (
        {"cause": "reported_cores", "requested": 3, "free": 2},
        "3 dedicated CPUs on reported cores requested, 2 free",
    ),
    (
        {"cause": "separate_cores", "requested": 3, "free": 2},
        "3 dedicated CPUs on separate cores requested, 2 cores free",
    ),
    ({"cause": "isolated_threads"}, "thread policy isolate requested, cores have several threads"),
    (
        {"cause": "emulator_cpus", "requested": 1, "free": 0},
        "1 dedicated CPUs for the emulator requested, 0 free",
    ),
]
_CONDITIONS = [
    {"condition": "free", "devices": 9},
    {"condition": "specs", "devices": 8, "specs": [{"a": "b", "c": "1"}, {"d": "e"}]},
    {"condition": "numa_policy", "devices": 7, "host_nodes": [0, 1], "policy": "legacy"},
    {"condition": "type", "devices": 6},
    {"condition": "management", "devices": 5},
    {"condition": "providers", "devices": 4, "providers": [{"uuid": "u1", "devices": 2}]},
    {"condition": "live_migration", "devices": 3},
    {"condition": "one_pool"},
]
_DEVICES = {"cause": "devices", "requested": 1, "actual": 0, "port": "p1"}
#: Values and sentences of rejections for PCI devices.
PCI_SENTENCES = [
    (
        {"cause": "no_report", "requested": 2, "actual": 0},
        "2 PCI devices requested, the host reports none",
    ),
    ({"cause": "no_candidate"}, "no allocation candidate of the host remains"),
    (
        {
            "cause": "devices",
            "requested": 3,
            "actual": 0,
            "alias": "nic",
            "conditions": _CONDITIONS,
        },
        (
            "3 devices for PCI alias nic requested: 9 free, 8 with a b, c 1 or d e, 7 near enough "
            "to NUMA nodes 0, 1 (policy legacy), 6 without unrequested physical functions and vdpa "
            "devices, 5 without unrequested remote managed devices, 4 of the allocation "
            "candidate's providers (2 of u1), 3 live migratable, but devices of one resource "
            "provider are in several pools"
        ),
    ),
    (
        {**_DEVICES, "conditions": [{"condition": "specs", "devices": 0, "specs": [{}, {}]}]},
        "1 device for port p1 requested: 0 as specified",
    ),
    (
        {
            "cause": "candidates",
            "candidates": 4,
            "parts": [{"kind": "pci_device", **_DEVICES, "conditions": _CONDITIONS[:1]}],
        },
        "none of 4 allocation candidates fits, the first: 1 device for port p1 requested: 9 free",
    ),
]
#: Kind, values and sentence.
SENTENCES = [
    ("candidates", {}, "the filters removed all its allocation candidates"),
    (
        "not_evaluated",
        {"failure": "acme.GPU failed: KeyError"},
        "later filters were not evaluated: acme.GPU failed: KeyError",
    ),
    (
        "not_evaluated",
        {"reasons": 1, "maximum": 20},
        (
            "only the first reason is shown, without suggested changes: for a request of this "
            "size, all stages are evaluated for at most 20 rejected hosts. Name fewer hosts"
        ),
    ),
    (
        "not_evaluated",
        {"reasons": 0, "maximum": 20},
        (
            "the reason was not evaluated: for a request of this size, all stages are evaluated "
            "for at most 20 rejected hosts. Name fewer hosts"
        ),
    ),
    (
        "capacity",
        {"resource_class": "MEMORY_MB", "requested": 512, "free": 100.0, **HOST_AMOUNTS},
        "512 MB requested, 100 free of 1000 x 1.5",
    ),
    (
        "capacity",
        {**VCPU_AMOUNTS, "requested": 10, "free": 9.000000000000002},
        "10 VCPU requested, 9 free of 10 x 1.1",
    ),
    (
        "capacity",
        {**VCPU_AMOUNTS, "requested": 1, "free": -1.0},
        "1 VCPU requested, -1 free of 10 x 1.1",
    ),
    (
        "capacity",
        {"resource_class": "DISK_GB", "requested": 1024, "free": 1500.0, **HOST_AMOUNTS},
        "1024 MB of disk requested, the host has 1000 in all",
    ),
    (
        "image_property",
        {"requested": 46, "address_bits": 40},
        "46 bits of physical addresses requested, 40 found",
    ),
    (
        "affinity",
        {"hosts": ["cn1", "cn2"], "more": 3},
        "the server group is on cn1, cn2 and 3 more",
    ),
    (
        "aggregate_extra_spec",
        {"key": "ssd", "requested": "true", "actual": ["false", "no"]},
        "ssd: 'true' requested, false, no found",
    ),
    (
        "aggregate_extra_spec",
        {"key": "ssd", "requested": "true"},
        "ssd: 'true' requested, no aggregate of the host has it",
    ),
    (
        "aggregate_flavors",
        {"requested": "m1.tiny", "actual": ["m1.big", "m1.huge"]},
        "flavor m1.tiny requested, the host is for m1.big, m1.huge",
    ),
    (
        "aggregate_flavors",
        {"actual": ["m1.big"]},
        "a flavor without a name requested, the host is for m1.big",
    ),
    (
        "aggregate_image_property",
        {"key": "os_distro", "requested": "debian", "actual": ["rhel", "sles"]},
        "os_distro: the image has debian, the aggregates rhel, sles",
    ),
    ("anti_affinity", {"members": 1, "maximum": 1}, "1 member of the server group here, 1 allowed"),
    (
        "anti_affinity",
        {"members": 2, "maximum": 1},
        "2 members of the server group here, 1 allowed",
    ),
    (
        "availability_zone",
        {"requested": ["az1", "az2"], "actual": ["az3", "az4"]},
        "zone az1 or az2 requested, the host is in az3, az4",
    ),
    (
        "different_host",
        {"instances": ["i1"], "more": 2},
        "different_host: the host has i1 and 2 more",
    ),
    ("disabled", {"disabled_reason": "replacing a DIMM"}, "disabled: replacing a DIMM"),
    ("disabled", {"disabled_reason": ""}, "disabled"),
    ("down", {"actual": 93, "service_down_time": 60}, "no heartbeat for 93 s"),
    (
        "extra_spec",
        {"key": "capabilities:x", "requested": ">= 3", "actual": 2},
        "capabilities:x: '>= 3' requested, 2 found",
    ),
    (
        "extra_spec",
        {"key": "capabilities:x", "requested": ">= 3"},
        "capabilities:x: '>= 3' requested, the host has none",
    ),
    (
        "failover_capacity",
        FAILOVER_CAPACITY,
        (
            "the failover capacity allows at most 3 more of flavor m1.small: with 4, 2 or more "
            "instances find no place if host cn1 fails (computed 17 s ago)"
        ),
    ),
    ("forced_down", {}, "forced down"),
    (
        "image_property",
        {"requested": ">=6.0", "hypervisor_version": "1.5.3"},
        "hypervisor version >=6.0 requested, 1.5.3 found",
    ),
    ("ignored_host", {}, "ignore_hosts of the request names it"),
    ("isolated", {"image": "i9"}, "the host is isolated, image i9 is not"),
    ("isolated", {}, "the host is isolated, a request without image is not"),
    ("isolated", {"isolated_image": "i9"}, "image i9 is isolated, the host is not"),
    ("max_instances", {"actual": 50, "maximum": 50}, "50 instances there, the maximum is 50"),
    ("max_instances", {"actual": 1, "maximum": 1}, "1 instance there, the maximum is 1"),
    ("max_io_ops", {"actual": 8, "maximum": 8}, "8 instances busy with disks, the maximum is 8"),
    (
        "topology_spread",
        {**SKEW, "members": 1, "fewest_members": 0},
        (
            "Domain rack=r1 has 1 member, the emptiest (r3) has 0: skew 2 after placement exceeds "
            "max_skew 1"
        ),
    ),
    (
        "missing_metrics",
        {"metrics": ["a", "b"], "more": 2},
        "metrics not reported: a, b and 2 more",
    ),
    ("never_reported", {}, "no heartbeat ever"),
    (
        "topology_spread",
        {"key": "rack"},
        "no aggregate of the host has metadata 'rack', so it is in no domain",
    ),
    (
        "trust_level",
        {"requested": "trusted", "actual": "unknown", "failure": "no response"},
        "trusted requested, the host is unknown: no response",
    ),
    (
        "trust_level",
        {"requested": "trusted", "actual": "unknown", "option": "[x] server"},
        "trusted requested, the host is unknown: [x] server is not set",
    ),
    (
        "trust_level",
        {"requested": "trusted", "actual": "unknown"},
        "trusted requested, the host is unknown: the attestation service does not list it",
    ),
    ("other_host", {"cell": "c1"}, "the request names cell c1"),
    (
        "image_property",
        {"requested": "x86_64/any/hvm", "actual": ["i686/kvm/hvm", "i686/qemu/hvm"]},
        "x86_64/any/hvm requested, i686/kvm/hvm, i686/qemu/hvm supported",
    ),
    (
        "image_property",
        {"requested": "x86_64/any/hvm"},
        "x86_64/any/hvm requested, nothing supported",
    ),
    (
        "other_flavors",
        {"requested": "m1.tiny", "actual": ["m1.big"]},
        "flavor m1.tiny requested, the host has instances of m1.big",
    ),
    (
        "other_flavors",
        {"actual": ["m1.big"]},
        "a flavor without a name requested, the host has instances of m1.big",
    ),
    ("other_host", {}, "the request names other hosts"),
    (
        "project",
        {"requested": "p1", "projects": ["p2", "p3", "p4"], "more": 5},
        "requested by project p1, the host is for p2, p3, p4 and 5 more",
    ),
    ("project", {"projects": ["p2"]}, "requested without a project, the host is for p2"),
    (
        "query",
        {"requested": '["<","$free_ram_mb",9]', "attributes": {"$free_ram_mb": 10}},
        '["<","$free_ram_mb",9] does not hold: $free_ram_mb is 10',
    ),
    ("query", {"requested": '["=",1,2]', "attributes": {}}, '["=",1,2] does not hold'),
    ("retry", {"hosts": 2}, "already tried (2 hosts so far)"),
    ("retry", {"hosts": 1}, "already tried (1 host so far)"),
    ("same_host", {"instances": ["i1", "i2"]}, "same_host: the host has none of i1, i2"),
    (
        "scheduling_policy",
        {"requested": "packed", "actual": ["default"]},
        "policy packed requested, the host has default",
    ),
    (
        "subnet",
        {"requested": "10.0.0.0/24", "actual": "10.1.0.1"},
        "an address in 10.0.0.0/24 requested, 10.1.0.1 found",
    ),
    (
        "subnet",
        {"requested": "10.0.0.0/24"},
        "an address in 10.0.0.0/24 requested, the host reports none",
    ),
    (
        "trust_level",
        {"requested": "trusted", "actual": "untrusted", "since": "2026-01-01T12:00:00Z"},
        "trusted requested, the host is untrusted since 2026-01-01T12:00:00Z",
    ),
    (
        "no_allowed_aggregate",
        {"traits": ["CUSTOM_A"]},
        "every aggregate with trait:CUSTOM_A=required is forbidden to the request",
    ),
    ("no_project_aggregate", {"requested": "p9"}, "no aggregate is tagged with project 'p9'"),
    (
        "closed_cell",
        {"cell": "c1", "title": "cell1 (c1)", "away_s": 60, "failure": "timeout"},
        "the database of cell cell1 (c1) has not answered for 60 s: timeout",
    ),
    (
        "closed_cell",
        {"cell": "c1", "title": "c1", "away_s": 60},
        "the database of cell c1 has not answered for 60 s",
    ),
    ("closed_cell", {"cell": "c1"}, "its cell is disabled"),
    (
        "unknown_zone",
        {"requested": "az2", "zones": ["az1", "nova"], "similar_names": ["az1"]},
        "no aggregate has the availability zone 'az2' (zones: az1, nova). Did you mean 'az1'?",
    ),
    (
        "routed_network",
        {"network": "network n1", "segment": "s1"},
        "network n1: its segment s1 is in no aggregate",
    ),
    (
        "routed_network",
        {"network": "port p1"},
        (
            "the segments of port p1 are not known: set [neutron] auth_type, or give them in "
            "requested_networks"
        ),
    ),
    *(("numa_topology", *row) for row in NUMA_SENTENCES),
    *(("pci_device", *row) for row in PCI_SENTENCES),
]
#: Kind, values, clause about a host, and clause about several hosts.
CLAUSES = [
    (
        "disabled",
        {"disabled_reason": ""},
        "its nova-compute is disabled",
        "their nova-compute is disabled",
    ),
    (
        "down",
        {"actual": 7200, "service_down_time": 60},
        "its nova-compute last reported 2 hours ago",
        "their nova-compute last reported over 60 s ago",
    ),
    ("forced_down", {}, "its nova-compute is forced down", "their nova-compute is forced down"),
    (
        "never_reported",
        {},
        "its nova-compute has never reported",
        "their nova-compute has never reported",
    ),
    (
        "ignored_host",
        {},
        "ignore_hosts of the request names it",
        "ignore_hosts of the request names them",
    ),
    ("other_host", {}, "the request names other hosts", "the request names other hosts"),
    ("other_host", {"cell": "c1"}, "the request names cell c1", "the request names cell c1"),
    (
        "retry",
        {"hosts": 2},
        "RetryFilter rejects it: already tried (2 hosts so far)",
        "RetryFilter rejects them",
    ),
]
