# SPDX-License-Identifier: Apache-2.0
"""Values of each kind of rejection, with the sentences about them."""

AGGREGATE = "5d1e3c2b-0000-4000-8000-000000000001"
HOST_AMOUNTS = {"unit": "MB", "capacity": 1500.0, "total": 1000, "allocation_ratio": 1.5}
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

#: Kind, values and sentence.
SENTENCES = [
    (
        "capacity",
        {"resource_class": "MEMORY_MB", "requested": 512, "free": 100.0, **HOST_AMOUNTS},
        "512 MB requested, 100 free of 1000 x 1.5",
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
    ("other_host", {}, "the request names other hosts"),
    (
        "project",
        {"requested": "p1", "projects": ["p2", "p3", "p4"], "more": 5},
        "requested by project p1, the host is for p2, p3, p4 and 5 more",
    ),
    (
        "query",
        {"requested": '["<","$free_ram_mb",9]', "attributes": {"$free_ram_mb": 10}},
        '["<","$free_ram_mb",9] does not hold: $free_ram_mb is 10',
    ),
    ("query", {"requested": '["=",1,2]', "attributes": {}}, '["=",1,2] does not hold'),
    ("retry", {"hosts": 2}, "already tried (2 hosts so far)"),
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
]
#: The kinds whose sentence is in the rejection.
KINDS_WITH_TEXT = ("numa_topology", "pci_device")
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
