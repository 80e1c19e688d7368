# SPDX-License-Identifier: Apache-2.0
"""Violations, compared with explanations on a cloud without the server."""

from collections import Counter
from functools import partial

import pytest

from placement_sched.extensions.what_if.violations.report import report_violations
from placement_sched.scheduler.filters import BaseHostFilter
from tests.exploring import SeededRandom, scale_example_count
from tests.extensions.what_if.violations.clouds import (
    GROUPS,
    LICENSE,
    OPTIONS,
    OWNER,
    POOL,
    POOL_AGGREGATE,
    REQUEST,
    RULES,
    SSD,
    draw_cloud,
    find_rejected_servers,
    load,
    make_host,
    make_server,
)
from tests.support.statements import execute_statements, record_statements

_SMALL = {"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 1}
_SSD = {**_SMALL, "name": "ssd", "extra_specs": {f"trait:{SSD}": "required"}}


class FirstServerFilter(BaseHostFilter):
    """Third-party filter for hosts without instances, or with i0 alone."""

    def host_passes(self, host_state, spec_obj):
        names = {each.display_name for each in host_state.instances.values()}
        return names <= {"i0"}


class ComparingFilter(BaseHostFilter):
    """Third-party filter that compares hosts."""

    def filter_all(self, filter_obj_list, spec_obj):
        return list(filter_obj_list)[:1]


def report(app, hosts=None):
    return report_violations(app.app.services.scheduler, hosts)


def map_stages(result):
    return {
        each["uuid"]: {(reason["stage"], reason["name"], reason["kind"]) for reason in reasons}
        for each in result["violations"]
        for reasons in [each["reasons"]]
    }


def list_rules(app, hosts=None):
    """Return sorted pairs of the name of a server and a violated rule."""
    return sorted(
        (each["name"], reason["rule"])
        for each in report(app, hosts)["violations"]
        for reason in each["reasons"]
    )


@pytest.fixture
def make_cloud(make_new_app):
    """Return a function that loads hosts cn0 to cn2, servers and other parts."""

    def make(servers, options=OPTIONS, **parts):
        document = {
            "traits": [SSD, LICENSE],
            "flavors": [_SMALL, _SSD],
            "hosts": [make_host(f"cn{number}", traits=[SSD]) for number in range(3)],
            "server_groups": GROUPS,
            "instances": servers,
            **parts,
        }
        return load(make_new_app(**options), document, ())

    return make


def run(app, *statements):
    execute_statements(app.app.services.database, *statements)


@pytest.mark.slow
def test_violations_are_servers_that_explain_rejects_on_their_hosts(make_new_app):
    kinds = Counter()
    for number in range(scale_example_count(30)):
        document, statements = draw_cloud(SeededRandom.numbered(number))
        result = report(load(make_new_app(**OPTIONS), document, statements))
        rejected = find_rejected_servers(partial(make_new_app, **RULES), document, statements)
        failed = {uuid for uuid, stages in rejected.items() if stages is None}
        expected = {uuid: stages for uuid, stages in rejected.items() if stages is not None}
        assert map_stages(result) == expected, (number, document, statements)
        unexamined = {uuid for each in result["unexamined"] for uuid in each["examples"]}
        without = {each["uuid"] for each in document["instances"] if not each["allocations"]}
        assert unexamined == failed | without, (number, result["unexamined"])
        kinds.update(kind for stages in expected.values() for _, _, kind in stages)
    assert {"capacity", "forbidden_aggregate"} <= kinds.keys()


def test_fresh_cloud_has_no_violations_on_full_or_disabled_hosts(make_cloud):
    servers = [make_server(f"i{number}", "cn0") for number in range(3)]
    servers += [
        make_server(f"m{number}", f"cn{number}", "ssd", server_group="apart") for number in (1, 2)
    ]
    services = [
        {"host": "cn0", "status": "disabled"},
        {"host": "cn1", "forced_down": True},
        {"host": "cn2", "last_seen_up": "2020-01-01T00:00:00Z"},
    ]
    result = report(make_cloud(servers, services=services))
    assert (result["servers"], result["violations"], result["unexamined"]) == (5, [], [])


def test_every_injected_violation_is_found(make_cloud):
    servers = [
        make_server("full", "cn0"),
        make_server("moved", "cn0", "ssd"),
        make_server("member1", "cn1", server_group="apart"),
        make_server("member2", "cn2", server_group="apart"),
        make_server("zoned", "cn2", request={**REQUEST, "availability_zone": "az1"}),
    ]
    zone = {"name": "az", "hosts": ["cn2"], "availability_zone": "az1"}
    app = make_cloud(servers, aggregates=[{"name": "licensed", "hosts": ["cn1"]}, zone])
    assert list_rules(app) == []
    provider = "resource_provider_id = (SELECT id FROM resource_providers WHERE name = '{}')"
    # A trait is removed from the host of "moved".
    run(app, f"DELETE FROM resource_provider_traits WHERE {provider.format('cn0')}")
    assert list_rules(app) == [("moved", f"trait {SSD}")]
    # The allocation ratio of cn0 is reduced.
    run(
        app,
        "UPDATE inventories SET allocation_ratio = 0.34 "
        f"WHERE resource_class_id = 0 AND {provider.format('cn0')}",
    )
    full = [("full", "over capacity"), ("moved", "over capacity"), ("moved", f"trait {SSD}")]
    assert list_rules(app) == full
    # A member of the group moves to the host of the other, outside of the scheduler.
    run(
        app,
        "UPDATE sched_instances SET host = 'cn1', node = 'cn1' WHERE display_name = 'member2'",
        "UPDATE allocations SET resource_provider_id = "
        "(SELECT id FROM resource_providers WHERE name = 'cn1') WHERE consumer_id = "
        "(SELECT uuid FROM sched_instances WHERE display_name = 'member2')",
    )
    anti_affinity = "ServerGroupAntiAffinityFilter"
    apart = [("member1", anti_affinity), ("member2", anti_affinity)]
    assert list_rules(app) == sorted([*full, *apart])
    # The group changes to a policy that no member violates.
    run(app, "UPDATE sched_server_groups SET policy = 'affinity' WHERE name = 'apart'")
    assert list_rules(app) == full
    # An aggregate is reserved for a trait, and a zone loses its host.
    path = "/compute/v2.1/os-aggregates"
    aggregates = {each["name"]: each for each in app.get(path).json["aggregates"]}
    metadata = {"set_metadata": {"metadata": {f"trait:{LICENSE}": "required"}}}
    app.post_json(f"{path}/{aggregates['licensed']['id']}/action", metadata)
    licensed = [(name, "isolated aggregate licensed") for name in ("member1", "member2")]
    assert list_rules(app) == sorted([*full, *licensed])


def test_servers_that_share_a_disk_do_not_count_for_each_other(make_cloud):
    """A pool with 2 GB is full of two servers on different hosts."""
    share = {"traits": ["MISC_SHARES_VIA_AGGREGATE"], "aggregates": [POOL_AGGREGATE]}
    pool = {"name": POOL, "inventories": {"DISK_GB": {"total": 2}}, **share}
    hosts = [make_host(f"cn{at}", local_gb=0, inventories={"DISK_GB": None}) for at in range(3)]
    own = {"VCPU": 1, "MEMORY_MB": 512}
    servers = [
        make_server(f"i{at}", f"cn{at}", allocations={f"cn{at}": own, POOL: {"DISK_GB": 1}})
        for at in range(2)
    ]
    storage = {"name": "storage", "uuid": POOL_AGGREGATE, "hosts": ["cn[0-2]"]}
    app = make_cloud(servers, hosts=hosts, providers=[pool], aggregates=[storage])
    assert list_rules(app) == []
    run(app, "UPDATE inventories SET total = 1 WHERE total = 2")
    assert list_rules(app) == [("i0", "over capacity"), ("i1", "over capacity")]


def test_facts_that_are_not_known_are_no_violations(make_cloud):
    """A server may boot from a volume, and its image may require a trait."""
    image = {"id": "00000000-0000-4000-8000-000000000001"}
    servers = [
        {"name": "disk", "host": "cn0", "flavor": "small", **OWNER},
        {"name": "image", "host": "cn1", "flavor": "small", "image": image, **OWNER},
        {"name": "claimless", "host": "cn2", "flavor": "small", "allocations": {}, **OWNER},
        {"name": "lost", "host": "cn9", "flavor": "small", **OWNER},
        make_server("pinned", "cn2", "pinned"),
    ]
    pinned = {**_SMALL, "name": "pinned", "extra_specs": {"hw:numa_nodes": "1"}}
    licensed = {"name": "l", "hosts": ["cn1"], "metadata": {f"trait:{LICENSE}": "required"}}
    enabled = {"filter_scheduler__enabled_filters": "NUMATopologyFilter"}
    app = make_cloud(
        servers, {**OPTIONS, **enabled}, aggregates=[licensed], flavors=[_SMALL, _SSD, pinned]
    )
    run(
        app,
        "UPDATE inventories SET total = 1, reserved = 1 WHERE resource_class_id = 2 AND "
        "resource_provider_id = (SELECT id FROM resource_providers WHERE name = 'cn0')",
    )
    result = report(app)
    assert result["violations"] == []
    assert result["unknown"]["is_bfv"] == 2
    includes = "compares amounts in the report of its host, which includes the server"
    depends = "depends on unknown facts of its request"
    assert [each["reason"] for each in result["unexamined"]] == [
        f"NUMATopologyFilter {includes}",
        f"isolated aggregate l {depends}",
        "it has no allocation on its host",
        "its host has no compute node",
        f"over capacity {depends}",
    ]


def test_request_that_fails_is_no_violation(make_cloud):
    gold = {**_SMALL, "name": "gold", "extra_specs": {"trait:CUSTOM_GOLD": "required"}}
    servers = [make_server("i0", "cn0", "gold"), make_server("i1", "cn1")]
    result = report(make_cloud(servers, flavors=[_SMALL, _SSD, gold]))
    (entry,) = result["unexamined"]
    assert entry["reason"].startswith("No such trait(s): CUSTOM_GOLD")
    assert (entry["servers"], result["violations"]) == (1, [])


def test_third_party_filter_sees_the_host_without_the_server(make_cloud):
    path = f"{__name__}.FirstServerFilter"
    enabled = {"filter_scheduler__available_filters": path}
    enabled["filter_scheduler__enabled_filters"] = "FirstServerFilter"
    servers = [make_server(f"i{number}", "cn0") for number in range(2)]
    servers += [make_server("alone", "cn1"), make_server("member", "cn2", server_group="soft")]
    app = make_cloud(servers, {**OPTIONS, **enabled})
    assert list_rules(app) == [("i0", "FirstServerFilter")]


def test_filter_that_compares_hosts_gives_no_result(make_cloud):
    path = f"{__name__}.ComparingFilter"
    enabled = {"filter_scheduler__available_filters": path}
    enabled["filter_scheduler__enabled_filters"] = "ComparingFilter"
    result = report(make_cloud([make_server("i0", "cn0")], {**OPTIONS, **enabled}))
    assert result["violations"] == []
    assert result["unexamined"][0]["reason"] == "a third-party filter compares hosts"


def test_server_that_moved_after_it_was_read_is_no_violation(make_cloud, monkeypatch):
    app = make_cloud([make_server("i0", "cn0", "ssd")])
    run(app, "DELETE FROM resource_provider_traits")
    assert list_rules(app) == [("i0", f"trait {SSD}")]
    scheduler, calls = app.app.services.scheduler, []

    def move(done, _total):
        calls.append(done)
        run(app, "UPDATE sched_instances SET host = 'cn1'")

    assert report_violations(scheduler, None, move)["violations"] == []
    assert calls == [0, 1]


def test_number_of_statements_does_not_grow_with_the_servers(make_cloud):
    counts = []
    for number in (1, 30):
        servers = [
            make_server(
                f"i{host}-{at}-{group['name']}", f"cn{host}", "ssd", server_group=group["name"]
            )
            for host in range(3)
            for at in range(number)
            for group in (GROUPS[0], GROUPS[3])
        ]
        hosts = [make_host(f"cn{at}", vcpus=100, memory_mb=65536, local_gb=99) for at in range(3)]
        app = make_cloud(servers, hosts=hosts)
        with record_statements(app.app.services.database) as statements:
            assert report(app)["servers"] == 6 * number
        counts.append(len(statements))
    assert counts[0] == counts[1]


def test_checked_hosts_can_be_chosen(make_cloud):
    app = make_cloud([make_server("i0", "cn0", "ssd"), make_server("i1", "cn1", "ssd")])
    run(app, "DELETE FROM resource_provider_traits")
    assert list_rules(app, ["cn1"]) == [("i1", f"trait {SSD}")]


def test_hint_that_names_the_server_itself_counts_only_for_this_server(make_cloud):
    uuid = "00000000-0000-4000-8000-000000000001"
    request = {**REQUEST, "scheduler_hints": {"same_host": [uuid]}}
    servers = [
        make_server("i0", "cn0", uuid=uuid, request=request),
        make_server("i1", "cn0", request=request),
        make_server("i2", "cn1", request=request),
    ]
    assert list_rules(make_cloud(servers)) == [("i0", "SameHostFilter"), ("i2", "SameHostFilter")]
