# SPDX-License-Identifier: Apache-2.0
"""Concurrent requests under several policies, compared with single-policy services."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from placement_sched.scheduler.plugins import make_full_conf, read_settings
from tests.exploring import SeededRandom, scale_example_count
from tests.scheduler.explanations import put_aggregate
from tests.support.scheduling import make_flavor, make_report, make_spec
from tests.support.statements import record_statements

pytestmark = pytest.mark.slow

#: Overrides of each policy: weights, or filters with an option.
POLICY_OVERRIDES = {
    "pack": {"ram_weight_multiplier": "-1.0", "cpu_weight_multiplier": "0.0"},
    "spread": {"ram_weight_multiplier": "3.0", "disk_weight_multiplier": "0.5"},
    "few": {"enabled_filters": "ComputeFilter, NumInstancesFilter", "max_instances_per_host": "3"},
    "default": {},
}
NUMBER_OF_THREADS = 6
NUMBER_OF_REQUESTS = scale_example_count(120)


def read_service_settings(folder, url, name, *, alone):
    """Return the settings of a service with all policies or with the named policy."""
    file = folder / f"{name}-{alone}.conf"
    file.write_text(
        # Hosts stay up, even if the tests are slow.
        "[DEFAULT]\nservice_down_time = 86400\n"
        f"[placement_database]\nconnection = {url}\n[api]\nauth_strategy = noauth2\n"
    )
    settings = read_settings([str(file)], make_full_conf())
    if alone:
        return settings.with_overrides(
            {f"filter_scheduler.{key}": value for key, value in POLICY_OVERRIDES[name].items()}
        )
    text = file.read_text() + "[scheduler]\npolicies = pack, spread, few\n"
    for policy, options in POLICY_OVERRIDES.items():
        if policy != "default":
            lines = "".join(f"{key} = {value}\n" for key, value in options.items())
            text += f"[{policy}]\n{lines}"
    file.write_text(text)
    return read_settings([str(file)], make_full_conf())


@pytest.fixture
def policy_services(tmp_path, sqlite_url, make_app):
    """The service with all policies, and a service for each policy."""
    multi_policy_app = make_app(read_service_settings(tmp_path, sqlite_url, "all", alone=False))
    random = SeededRandom.numbered(7)
    reports = [
        make_report(
            f"{name}{number}",
            memory_mb=random.choice([32768, 65536, 131072]),
            local_gb=random.choice([200, 500, 900]),
            stats={"num_instances": str(random.randrange(5))},
        )
        for name in POLICY_OVERRIDES
        for number in range(8)
    ]
    multi_policy_app.post_json("/scheduler/v1/compute_nodes", reports)
    uuids = {}
    for index, name in enumerate(POLICY_OVERRIDES, start=1):
        metadata = {"rack": name}
        if name != "default":
            metadata |= {"sched_policy": name, "filter_tenant_id": name}
        hosts = [f"{name}{number}" for number in range(8)]
        uuids[name] = put_aggregate(multi_policy_app, index, metadata, *hosts)
    return multi_policy_app, {
        name: (make_app(read_service_settings(tmp_path, sqlite_url, name, alone=True)), uuids[name])
        for name in POLICY_OVERRIDES
    }


def require_aggregate_for_request(request_spec, uuid):
    return {**request_spec, "requested_destination": {"aggregates": [uuid]}}


def build_random_request(name, uuid, random):
    """Return a random request that selects the policy by its project, or selects none."""
    request = make_spec(
        project_id=name,
        flavor=make_flavor(
            vcpus=random.randint(1, 6),
            memory_mb=random.choice([512, 4096, 50000, 100000, 200000]),
            root_gb=random.choice([10, 100, 300]),
        ),
    )
    return require_aggregate_for_request(request, uuid) if name == "default" else request


def send_request_and_get_decision(client, request_spec):
    """Return hosts in order, weights, stages and selections of a request."""
    body = {"request_spec": request_spec}
    selected = client.post_json(
        "/scheduler/v1/select_destinations", {**body, "claim": False}, status="*"
    )
    response = client.post_json("/scheduler/v1/explain", body).json
    funnel = response["funnel"]
    return (
        response["outcome"],
        [(host["host"], host["weight"], host["weights"]) for host in response["hosts"]],
        [(stage["name"], stage["before"], stage["after"]) for stage in funnel["filters"]],
        [selections[0]["service_host"] for selections in response["selections"]],
        [entry[0]["service_host"] for entry in selected.json.get("selections", ())],
    )


@pytest.mark.property
def test_concurrent_decisions_equal_those_of_single_policy_services(policy_services):
    multi_policy_app, single_policy_apps = policy_services
    random = SeededRandom.numbered(11)
    requests = [
        (name, build_random_request(name, single_policy_apps[name][1], random))
        for name in random.choices(list(POLICY_OVERRIDES), k=NUMBER_OF_REQUESTS)
    ]
    expected = [
        send_request_and_get_decision(
            single_policy_apps[name][0],
            require_aggregate_for_request(request_spec, single_policy_apps[name][1]),
        )
        for name, request_spec in requests
    ]
    assert {entry[0] for entry in expected} == {"selected", "no_valid_host"}
    with ThreadPoolExecutor(NUMBER_OF_THREADS) as pool:
        responses = list(
            pool.map(
                lambda pair: send_request_and_get_decision(multi_policy_app, pair[1]), requests
            )
        )
    wrong = [
        name
        for (name, _), response, request in zip(requests, responses, expected, strict=True)
        if response != request
    ]
    assert wrong == []


def count_statements(client, request_spec):
    """Return the number of SQL statements of a selection with filled caches."""
    send_request_and_get_decision(client, request_spec)
    with record_statements(client.app.services.database) as seen:
        send_request_and_get_decision(client, request_spec)
    return len(seen)


def test_policies_need_no_additional_sql_statement(policy_services):
    multi_policy_app, single_policy_apps = policy_services
    for name, (client, uuid) in single_policy_apps.items():
        request = build_random_request(name, uuid, Random(1))
        expected = count_statements(client, require_aggregate_for_request(request, uuid))
        assert count_statements(multi_policy_app, request) == expected, name
