# SPDX-License-Identifier: Apache-2.0
"""Many requests at once, under several policies: each goes as where there is its policy alone."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from placement_sched.scheduler.plugins import make_full_conf, read_settings
from tests.exploring import Dice
from tests.support.scheduling import flavor, report, spec
from tests.support.statements import counted

pytestmark = pytest.mark.slow

#: What each policy overrides: another weight, other filters, another driver of its options.
POLICIES = {
    "pack": {"ram_weight_multiplier": "-1.0", "cpu_weight_multiplier": "0.0"},
    "spread": {"ram_weight_multiplier": "3.0", "disk_weight_multiplier": "0.5"},
    "few": {"enabled_filters": "ComputeFilter, NumInstancesFilter", "max_instances_per_host": "3"},
    "default": {},
}
THREADS = 6
REQUESTS = 120


def configured(folder, url, name, *, alone):
    """The settings of a service that has all policies, or that has one as its only way."""
    file = folder / f"{name}-{alone}.conf"
    file.write_text(
        # However slow the tests are, a host that reported stays up.
        "[DEFAULT]\nservice_down_time = 86400\n"
        f"[placement_database]\nconnection = {url}\n[api]\nauth_strategy = noauth2\n"
    )
    settings = read_settings([str(file)], make_full_conf())
    if alone:
        return settings.with_overrides(
            {f"filter_scheduler.{key}": value for key, value in POLICIES[name].items()}
        )
    text = file.read_text() + "[scheduler]\npolicies = pack, spread, few\n"
    for policy, options in POLICIES.items():
        if policy != "default":
            lines = "".join(f"{key} = {value}\n" for key, value in options.items())
            text += f"[{policy}]\n{lines}"
    file.write_text(text)
    return read_settings([str(file)], make_full_conf())


@pytest.fixture
def services(tmp_path, sqlite_url, make_app):
    """The service with all policies, and for each policy one that has it alone."""
    every = make_app(configured(tmp_path, sqlite_url, "all", alone=False))
    random = Dice.of(7)
    reports = [
        report(
            f"{name}{number}",
            memory_mb=random.choice([32768, 65536, 131072]),
            local_gb=random.choice([200, 500, 900]),
            stats={"num_instances": str(random.randrange(5))},
        )
        for name in POLICIES
        for number in range(8)
    ]
    every.post_json("/scheduler/v1/compute_nodes", reports)
    uuids = {}
    for name in POLICIES:
        metadata = {"rack": name}
        if name != "default":
            metadata |= {"sched_policy": name, "filter_tenant_id": name}
        uuids[name] = aggregate(every, name, [f"{name}{number}" for number in range(8)], metadata)
    return every, {
        name: (make_app(configured(tmp_path, sqlite_url, name, alone=True)), uuids[name])
        for name in POLICIES
    }


def aggregate(app, name, hosts, metadata):
    version = {"OpenStack-API-Version": "compute 2.41"}
    body = {"aggregate": {"name": name}}
    made = app.post_json("/compute/v2.1/os-aggregates", body, headers=version)
    action = f"/compute/v2.1/os-aggregates/{made.json['aggregate']['id']}/action"
    for host in hosts:
        app.post_json(action, {"add_host": {"host": host}})
    app.post_json(action, {"set_metadata": {"metadata": metadata}})
    return made.json["aggregate"]["uuid"]


def confined(asked, uuid):
    """The request, confined to an aggregate by who asks."""
    return {**asked, "requested_destination": {"aggregates": [uuid]}}


def requested(name, uuid, random):
    """A request of a project, whose tag is on the aggregate of its policy, or of nobody's."""
    asked = spec(
        project_id=name,
        flavor=flavor(
            vcpus=random.randint(1, 6),
            memory_mb=random.choice([512, 4096, 50000, 100000, 200000]),
            root_gb=random.choice([10, 100, 300]),
        ),
    )
    return confined(asked, uuid) if name == "default" else asked


def told(client, asked):
    """What a service says of a request: the hosts in their order, weights, selections, refusals."""
    body = {"request_spec": asked}
    selected = client.post_json(
        "/scheduler/v1/select_destinations", {**body, "claim": False}, status="*"
    )
    answer = client.post_json("/scheduler/v1/explain", body).json
    funnel = answer["funnel"]
    return (
        answer["outcome"],
        [(host["host"], host["weight"], host["weights"]) for host in answer["hosts"]],
        [(one["name"], one["before"], one["after"]) for one in funnel["filters"]],
        [selections[0]["service_host"] for selections in answer["selections"]],
        [one[0]["service_host"] for one in selected.json.get("selections", ())],
    )


@pytest.mark.property
def test_each_decision_is_that_of_a_service_with_its_policy_alone(services):
    every, alone = services
    random = Dice.of(11)
    requests = [
        (name, requested(name, alone[name][1], random))
        for name in random.choices(list(POLICIES), k=REQUESTS)
    ]
    expected = [told(alone[name][0], confined(asked, alone[name][1])) for name, asked in requests]
    assert {one[0] for one in expected} == {"selected", "no_valid_host"}
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(lambda one: told(every, one[1]), requests))
    wrong = [
        name
        for (name, _), answer, wanted in zip(requests, answers, expected, strict=True)
        if answer != wanted
    ]
    assert wrong == []


def test_each_policy_decides_in_its_own_way(services):
    _, alone = services
    weighers = {
        name: str(told(client, confined(spec(), uuid))[1:3]).replace(name, "")
        for name, (client, uuid) in alone.items()
    }
    assert len(set(weighers.values())) == len(POLICIES)


def statements(client, asked):
    """How many SQL statements a selection takes, once everything it remembers is there."""
    told(client, asked)
    with counted(client.app.services.database) as seen:
        told(client, asked)
    return len(seen)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_costs_no_statement(services, name):
    every, alone = services
    client, uuid = alone[name]
    asked = requested(name, uuid, Random(1))
    assert statements(every, asked) == statements(client, confined(asked, uuid))
