# SPDX-License-Identifier: Apache-2.0
"""Sentences of suggested changes."""

import pytest

from placement_sched.explain.advice import ADVICE, build_change, format_advice

MEMORY = {"resource_class": "MEMORY_MB", "amount": 512}
AGGREGATES = {"aggregates": [{"name": "gold"}, {"name": "silver"}], "provider": "cn1"}
#: Action, or action and kind of rejection, with values and the sentence.
SENTENCES = [
    (
        "add_inventory",
        {"resource_class": "VGPU", "total": 2, "provider": "gpu0"},
        "give gpu0 an inventory of at least 2 of VGPU",
    ),
    ("add_capacity", {**MEMORY, "units": {}}, "add capacity for 512 MB of MEMORY_MB"),
    (
        "set_inventory",
        {"resource_class": "VCPU", "units": {"max_unit": 8, "step_size": 1}, "provider": "cn1"},
        "set max_unit of VCPU to 8 and step_size of VCPU to 1 on cn1",
    ),
    ("free", {**MEMORY, "units": {}, "provider": "cn1"}, "free 512 MB of MEMORY_MB on cn1"),
    ("make_room", {**MEMORY, "provider": "cn1"}, "free 512 more of MEMORY_MB on cn1"),
    ("change_request", {**MEMORY, "instead_of": 600}, "request at most 512 MB of MEMORY_MB"),
    ("change_request", {**MEMORY, "instead_of": 500}, "request at least 512 MB of MEMORY_MB"),
    ("remove_trait", {"traits": ["CUSTOM_A"], "provider": "cn1"}, "remove trait CUSTOM_A from cn1"),
    (
        "add_trait",
        {"traits": ["CUSTOM_A", "CUSTOM_B"]},
        "give its provider trait CUSTOM_A or CUSTOM_B",
    ),
    ("leave_aggregate", AGGREGATES, "remove cn1 from aggregate gold and silver"),
    ("join_aggregate", AGGREGATES, "add cn1 to aggregate gold or silver"),
    ("require_traits", {"traits": ["CUSTOM_A"]}, "require trait CUSTOM_A"),
    (
        "raise_option limit",
        {"option": "[placement] max_allocation_candidates", "option_source": "p.conf"},
        (
            "raise [placement] max_allocation_candidates (set in p.conf), or name the host in the "
            "request"
        ),
    ),
    (
        "enable_service",
        {"steps": ["enable_service", "unset_forced_down"]},
        "enable its compute service and unset forced_down of its compute service",
    ),
    (
        "unset_forced_down",
        {"steps": ["unset_forced_down"]},
        "unset forced_down of its compute service",
    ),
    ("report_in", {"steps": ["report_in"]}, "make it report again"),
    (
        "drop_constraint",
        {"kind": "missing_trait", "traits": ["CUSTOM_A"]},
        "do not require trait CUSTOM_A",
    ),
    ("change_request ignore_hosts", {}, "do not ignore it"),
    ("change_request requested_hosts", {}, "name this host in the request, or none"),
    ("change_request requested_cell", {"cell": "c1"}, "name its cell c1, or none"),
    ("enable_cell", {"cell": "c1"}, "enable its cell c1"),
    (
        "change_request aggregate_flavors",
        {"flavors": ["a", "b"], "flavor": "c"},
        "request flavor a or b, or add c to instance_type of the host's aggregates",
    ),
    ("change_request availability_zone", {"availability_zone": "az1"}, "request zone az1"),
    ("change_request memory_mb", {"memory_mb": 512}, "request at most 512 MB of memory"),
    ("change_request retry", {}, "remove the host from the request's retry hosts"),
    ("change_request root_gb", {"root_gb": 5}, "request at most 5 GB of root disk"),
    ("change_request vcpus", {"vcpus": 2}, "request at most 2 VCPU"),
    (
        "change_image_properties aggregate_image_property",
        {"allowed": {"os_type": ["linux", "windows"], "hw_vif_model": ["virtio"]}},
        "use an image with os_type linux or windows; hw_vif_model virtio",
    ),
    (
        "change_image_properties image_property",
        {"supported": ["x86_64 kvm", "i686 kvm"]},
        "use an image for x86_64 kvm or i686 kvm",
    ),
    ("change_image_properties image_property", {"supported": []}, "use an image for no hypervisor"),
    (
        "drop_extra_specs aggregate_extra_spec",
        {"names": "a, b"},
        "remove extra spec a, b from the flavor, or add them to the host's aggregate metadata",
    ),
    (
        "drop_extra_specs extra_spec",
        {"names": "a"},
        "remove extra spec a from the flavor, or make the host report matching values",
    ),
    (
        "drop_extra_specs trust_level",
        {"names": "a"},
        "remove extra spec a from the flavor, or have the host attested at that level",
    ),
    ("drop_hint", {"hint": "query"}, "remove the scheduler hint query from the request"),
    (
        "drop_numa_topology",
        {},
        "request no NUMA topology, or free capacity on the NUMA nodes of the host",
    ),
    ("drop_pci_requests", {}, "free such PCI devices on the host, or request none"),
    (
        "leave_group affinity",
        {},
        "request an instance outside the server group, or move its members to this host",
    ),
    ("leave_group topology_spread", {}, "request an instance outside the server group"),
    (
        "raise_option",
        {"option": "max_io_ops_per_host", "value": 9},
        "raise max_io_ops_per_host to 9",
    ),
    (
        "raise_rule",
        {"max_server_per_host": 3},
        "move a member of the server group away, or raise max_server_per_host to 3",
    ),
    ("raise_skew", {"max_skew": 2}, "raise max_skew to 2"),
    (
        "remove_instances max_instances",
        {"instances": 3},
        "wait for or move away 3 of the instances",
    ),
    (
        "remove_instances max_io_ops",
        {"instances": 3},
        "wait for or move away 3 of the instances that are busy with disks",
    ),
    ("remove_instances other_flavors", {"instances": 1}, "move away 1 instance of other flavors"),
    ("report_metrics", {"names": "cpu.percent"}, "make the host report cpu.percent"),
    (
        "set_option isolated_host",
        {"name": "cn1", "image": None},
        "use an isolated image, or remove cn1 from isolated_hosts",
    ),
    (
        "set_option isolated_image",
        {"name": "cn1", "image": "i1"},
        "add cn1 to isolated_hosts, or use an image other than i1",
    ),
    (
        "tag_aggregate maximum",
        {"key": "max_io_ops_per_host", "value": 9},
        "raise max_io_ops_per_host to 9 in the metadata of the host's aggregates",
    ),
    ("change_request aggregate_flavors", {"flavors": ["a"], "flavor": None}, "request flavor a"),
    (
        "tag_aggregate project",
        {"key": "filter_tenant_id", "project": None},
        "request it for a project in filter_tenant_id of the host's aggregates",
    ),
    (
        "tag_aggregate project",
        {"key": "filter_tenant_id", "project": "p1"},
        "add project p1 to filter_tenant_id of the host's aggregates",
    ),
]


@pytest.mark.parametrize(("name", "values", "sentence"), SENTENCES)
def test_each_change_has_a_sentence(name, values, sentence):
    assert format_advice(name, values) == sentence


def test_sentence_of_every_change_is_tested():
    assert ADVICE.keys() == {name for name, *_ in SENTENCES}


def test_change_has_the_values_of_its_action_and_not_those_of_its_sentence():
    change = build_change("enable_cell", cell="c1")
    assert change.as_json() == {"action": "enable_cell", "words": "enable its cell c1"}
