# SPDX-License-Identifier: Apache-2.0
"""Host aggregates read from a compute API as nova's API reference describes it."""

from urllib.parse import parse_qs, urlsplit

import pytest

from placement_sched.clients.placement import PAGE_SIZE, read_remote_hosts
from placement_sched.errors import ServiceFailed
from placement_sched.operations.provider_sync import read_own_hosts
from tests.support.host_maps import add_aggregate
from tests.support.hosts import add_service
from tests.support.in_process import InProcess, answer_with_documents, compute_service, wsgi_handler
from tests.support.reports import build_report

URL = "http://nova/v2.1"


def hypervisor(number: int, host: str | None = None) -> dict:
    uuid = f"00000000-0000-4000-8000-{number:012}"
    name = f"cn{number}"
    return {
        "id": uuid,
        "hypervisor_hostname": name,
        "service": {"host": host or name, "id": uuid, "disabled_reason": None},
    }


def paged_answers(hypervisors: list[dict], max_limit: int = PAGE_SIZE):
    """Return a function that pages like nova, with at most ``max_limit`` items per page."""

    def answer(target: str) -> dict:
        query = parse_qs(urlsplit(target).query)
        limit, start = min(int(query["limit"][0]), max_limit), 0
        if marker := query.get("marker"):
            start = [each["id"] for each in hypervisors].index(marker[0]) + 1
        return {"hypervisors": hypervisors[start : start + limit]}

    return answer


def nova_documents(hypervisors: list[dict]) -> dict:
    return {
        "/v2.1/os-aggregates": {
            "aggregates": [
                {
                    "id": 2,
                    "uuid": "bbbbbbbb-0000-4000-8000-000000000000",
                    "name": "windows",
                    "availability_zone": None,
                    "hosts": ["cn1", "ghost"],
                    "metadata": {"trait:CUSTOM_LICENSED": "required"},
                    "created_at": "2026-01-01T12:00:00.000000",
                    "deleted": False,
                },
                {
                    "id": 1,
                    "uuid": "aaaaaaaa-0000-4000-8000-000000000000",
                    "name": "zone",
                    "hosts": [],
                    "metadata": {},
                },
            ]
        },
        "/v2.1/os-services": {"services": [{"host": "serving", "binary": "nova-compute"}]},
        "/v2.1/os-hypervisors/detail": paged_answers(hypervisors),
    }


def read_documents(documents, **options):
    return read_remote_hosts(
        compute_service(InProcess(answer_with_documents(documents, **options)), URL)
    )


def test_aggregates_hosts_and_their_nodes_are_read():
    hosts = read_documents(
        nova_documents([hypervisor(1), hypervisor(2, "ironic"), hypervisor(3, "ironic")])
    )
    assert [each.name for each in hosts.aggregates] == ["zone", "windows"]
    assert hosts.aggregates[1].hosts == {"cn1", "ghost"}
    assert hosts.aggregates[1].metadata == {"trait:CUSTOM_LICENSED": "required"}
    assert hosts.known == {"cn1", "ironic", "serving"}
    assert hosts.nodes == {
        "cn1": {hypervisor(1)["id"]},
        "ironic": {hypervisor(2)["id"], hypervisor(3)["id"]},
    }


@pytest.mark.parametrize("number", [PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1])
def test_hypervisors_are_read_page_by_page(number):
    hosts = read_documents(nova_documents([hypervisor(each) for each in range(number)]))
    assert len(hosts.nodes) == number


@pytest.mark.parametrize("max_limit", [1, 3, 7, 10])
def test_smaller_pages_are_read_to_the_end(max_limit):
    hypervisors = [hypervisor(each) for each in range(7)]
    documents = nova_documents([]) | {
        "/v2.1/os-hypervisors/detail": paged_answers(hypervisors, max_limit)
    }
    assert len(read_documents(documents).nodes) == 7


def test_hypervisors_are_read_once_if_nova_ignores_the_marker():
    hypervisors = [hypervisor(each) for each in range(3)]
    documents = nova_documents([]) | {"/v2.1/os-hypervisors/detail": {"hypervisors": hypervisors}}
    door = InProcess(answer_with_documents(documents))
    hosts = read_remote_hosts(compute_service(door, URL))
    assert len(hosts.nodes) == 3
    assert len([seen for seen in door.seen if "os-hypervisors" in seen]) == 2


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [
        ("compute 2.1", 200, "compute microversion 2.53 (Pike) is needed"),
        (None, 200, "is too old, or no compute API"),
        (None, 406, "is too old, or no compute API"),
        ("compute 2.53", 403, "403 told to GET /os-aggregates"),
    ],
)
def test_unsupported_nova_is_reported(version, status, words):
    with pytest.raises(ServiceFailed) as failure:
        read_documents(nova_documents([]), version=version, status=status)
    assert words in failure.value.detail
    assert failure.value.service == "compute"


@pytest.mark.parametrize("strange", [[], {}, {"aggregates": [{}]}, {"aggregates": [1]}])
def test_malformed_document_is_reported(strange):
    with pytest.raises(ServiceFailed, match="did not answer GET /os-aggregates as"):
        read_documents(nova_documents([]) | {"/v2.1/os-aggregates": strange})


def test_own_compute_api_returns_the_database_state(sqlite_app, sqlite_database):
    sqlite_app.post_json(
        "/scheduler/v1/compute_nodes", [build_report(number) for number in range(2, 6)]
    )
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [build_report(6, host="cn2")])
    add_service(sqlite_database, "serving")
    add_aggregate(sqlite_database, "a", ["cn2", "cn3", "ghost"], {"trait:CUSTOM_A": "required"})
    add_aggregate(sqlite_database, "b")
    service = compute_service(InProcess(wsgi_handler(sqlite_app.app)), "http://ours/compute/v2.1")
    assert read_remote_hosts(service) == read_own_hosts(sqlite_database)
