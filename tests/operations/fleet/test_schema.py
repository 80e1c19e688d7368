# SPDX-License-Identifier: Apache-2.0
"""Schema errors in a fleet file name their line and column."""

import pytest

from placement_sched.errors import Invalid
from tests.support.clouds import uuid_of

UUID_1 = uuid_of("one")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "f.yaml:1:1: [] is not an object"),
        ("version: 2", "f.yaml:1:10: 2 is not one of 1 (at version)"),
        ("hosts: {}", "f.yaml:1:1: {} is not a list"),
        ("hots: []", "f.yaml:1:1: unknown key 'hots'. Did you mean 'hosts'? (at hots)"),
        ("traits: [HW_NOT]", "f.yaml:1:9: there is no standard trait HW_NOT"),
        ("resource_classes: [VCPUS]", "f.yaml:1:19: there is no standard resource class VCPUS"),
        ("hosts:\n- {vcpus: 1}", "f.yaml:2:3: 'host' is required"),
        ("hosts:\n- {host: a}", "f.yaml:2:3: 'vcpus' and 'memory_mb' are required"),
        ("hosts:\n- {host: a, vcpus: 1}", "f.yaml:2:3: 'memory_mb' is required"),
        (
            "hosts:\n- host: a\n  vcpus: x\n  memory_mb: 1",
            "f.yaml:3:10: 'x' is not an integer (at hosts.0.vcpus)",
        ),
        (
            "hosts:\n- host: a\n  vcpus: 1\n  memory_mb: 1\n  stats: {num_instances: no}",
            "f.yaml:5:26: false is not",
        ),
        ("hosts:\n- {host: 'a[2-1]', vcpus: 1, memory_mb: 1}", "f.yaml:2:10: 'a[2-1]': the range"),
        (
            "hosts:\n- {host: 'a[1-3]', node: [b, c], vcpus: 1, memory_mb: 1}",
            "f.yaml:2:26: the pattern expands to 2 values, 3 expected",
        ),
        (
            "hosts:\n- {host: 'a[1-2]', node: [b], vcpus: 1, memory_mb: 1}",
            "f.yaml:2:3: the name b is already used by provider ",
        ),
        (
            f"hosts:\n- {{host: 'a[1-2]', uuid: {UUID_1}, vcpus: 1, memory_mb: 1}}",
            f"f.yaml:2:3: the node {UUID_1} is already in the file",
        ),
        (
            "hosts:\n- {host: a, vcpus: 1, memory_mb: 1}\n- {host: a, vcpus: 1, memory_mb: 1}",
            "f.yaml:3:3: the node",
        ),
        (
            (
                f"hosts:\n- {{host: a, uuid: {UUID_1}, vcpus: 1, memory_mb: 1}}\n"
                f"- {{host: a, uuid: {uuid_of('two')}, vcpus: 1, memory_mb: 1}}"
            ),
            f"f.yaml:3:3: the names a a are already used by node {UUID_1}",
        ),
        (
            "hosts:\n- host: a\n  vcpus: 1\n  memory_mb: 1\n  providers: [{name: '{host}'}]",
            "f.yaml:5:22: '{host}': only {root} and {parent} are allowed",
        ),
        (
            "providers:\n- {name: a}\n- {name: b, providers: [{name: a}]}",
            "f.yaml:3:25: the provider",
        ),
        ("providers:\n- {name: a, inventories: {VCPU: {}}}", "f.yaml:2:27: 'total' is required"),
        (
            "providers:\n- {name: a, inventories: {VCPU: {total: 0}}}",
            "f.yaml:2:41: 0 is less than the minimum of 1",
        ),
        ("providers:\n- {name: a, aggregates: [x]}", "f.yaml:2:25: 'x' is not a uuid"),
        ("aggregates:\n- {name: a, hosts: [b]}", "f.yaml:2:20: aggregate a: Compute host b "),
        ("aggregates:\n- {name: a}\n- {name: a}", "f.yaml:3:3: the aggregate"),
        (
            "aggregates:\n- {name: a, availability_zone: y, metadata: {availability_zone: z}}",
            (
                "f.yaml:2:32: the metadata and the key 'availability_zone' name different "
                "availability zones"
            ),
        ),
        ("aggregates:\n- {name: a, metadata: {b: true}}", "f.yaml:2:27: true is not a string"),
        ("aggregates:\n- {name: a, metadata: {b: 1.5}}", "f.yaml:2:27: 1.5 is not a string. Put"),
        ("flavors:\n- {name: a}", "f.yaml:2:3: 'vcpus' is required"),
        (
            (
                "flavors:\n- {name: a, id: x, vcpus: 1, memory_mb: 1}\n"
                "- {name: a, id: y, vcpus: 1, memory_mb: 1}"
            ),
            "f.yaml:3:3: the name a is already used by flavor x",
        ),
        ("server_groups:\n- {name: a}", "f.yaml:2:3: 'policy' is required"),
        ("server_groups:\n- {name: a, policy: near}", "f.yaml:2:21: 'near' is not one of"),
        (
            "server_groups:\n- {name: a, policy: affinity, rules: {max_server_per_host: 1}}",
            "f.yaml:2:3: only the policy anti-affinity has rules",
        ),
        ("instances:\n- {name: a, server_group: x}", "f.yaml:2:27: there is no server group x"),
        ("images:\n- {}", "f.yaml:2:3: an image requires an 'id' or a 'name'"),
        ("images:\n- {name: a, visibility: x}", "f.yaml:2:25: 'x' is not one of"),
        (
            "images:\n- name: a\n  tags: [" + ",".join(f"t{n}" for n in range(129)) + "]",
            "f.yaml:2:3: The limit has been exceeded",
        ),
        ("instances:\n- {host: a}", "f.yaml:2:3: an instance requires a 'uuid' or a 'name'"),
        ("instances:\n- {name: a, flavor: x}", "f.yaml:2:21: there is no flavor x"),
        ("instances:\n- {name: a, flavor: {vcpu: 1}}", "f.yaml:2:22: unknown key 'vcpu'"),
        ("instances:\n- {name: a, image: x}", "f.yaml:2:20: there is no image x"),
        (
            "instances:\n- {name: a, allocations: {x: {VCPU: 1}}}",
            "f.yaml:2:27: there is no provider",
        ),
        ("instances:\n- {name: a}\n- {name: a}", "f.yaml:3:3: the instance"),
        ("instances:\n- {name: a, uuid: x}", "f.yaml:2:19: 'x' is not a uuid"),
        (f"allocations:\n- {{consumer: {UUID_1}}}", "f.yaml:2:3: 'project' is required"),
        ("services:\n- {host: a, status: up}", "f.yaml:2:21: 'up' is not one of"),
        ("services:\n- {host: a, last_seen_up: now}", "f.yaml:2:27: 'now' is not an ISO 8601"),
        ("a: [", "f.yaml:2:1: "),
        ("images:\n- {name: a, tags: [t, 't ']}", "f.yaml:2:23: 't ' is not printable, or"),
        ("images:\n- {name: a, properties: {size: 1}}", "f.yaml:2:3: Attribute 'size' is read"),
        ("images:\n- {name: a, properties: {tags: 1}}", "f.yaml:2:26: 'tags' is an attribute"),
        ("images:\n- {name: a, properties: {kernel_id: x}}", "f.yaml:2:37: 'x' is not a uuid"),
        (
            "aggregates:\n- {name: a, metadata: {k: 1, 'k ': 2}}",
            "f.yaml:2:30: 'k ' is not a valid key",
        ),
        ("aggregates:\n- {name: a, hosts: [b c]}", "f.yaml:2:20: 'b c' is not a valid host name"),
        ("flavors:\n- {name: a, vcpus: 0}", "f.yaml:2:20: 0 is less than the minimum of 1"),
        ("services:\n- {host: a, binary: 'x '}", "f.yaml:2:21: 'x ' is not printable"),
        (
            "allocations:\n- {consumer: a, project: p, user: u, allocations: {}}",
            "f.yaml:2:14: 'a' is not a",
        ),
        (
            f"providers:\n- {{name: [a, '{'p' * 199}[9-10]']}}",
            f"f.yaml:2:10: '{'p' * 55} [...] {'p' * 53}10' is too long: at most 200 characters",
        ),
        (
            f"server_groups:\n- {{name: a, policy: affinity, user: {'u' * 256}}}",
            f"f.yaml:2:37: '{'u' * 55} [...] {'u' * 55}' is too long: at most 255 characters",
        ),
        (
            "hosts:\n- {host: 'a[1-2]', vcpus: 1, memory_mb: 1, host_ip: ['::1', here]}",
            "f.yaml:2:53: 'here' is not an IP address",
        ),
        (
            "providers:\n- {name: a, inventories: {VCPU: {total: 2, reserved: 3}}}",
            "f.yaml:2:54: 3 is more than the total, 2",
        ),
        (
            "hosts:\n- {host: a, vcpus: 1, memory_mb: 1, inventories: {A: {reserved: 2,total: 1}}}",
            "f.yaml:2:65: 2 is more than the total, 1",
        ),
        (
            "flavors:\n- {name: a, rxtx_factor: 0}",
            "f.yaml:2:26: 0 is less than or equal to the minimum of 0",
        ),
        (
            "services:\n- {host: a, disabled_reason: x}",
            "f.yaml:2:30: disabled_reason requires the status disabled",
        ),
    ],
)
def test_schema_error_of_a_fleet_file_names_its_path(sqlite_cloud, text, message):
    with pytest.raises(Invalid) as refused:
        sqlite_cloud.load(text)
    assert str(refused.value).startswith(message)
    assert sqlite_cloud.load("") == []
