# SPDX-License-Identifier: Apache-2.0
"""A placement changed through its API: ours here, OpenStack's in ``tests/coexistence``.

The hosts are read from a compute API as nova's API reference describes it.
"""

import json
import threading
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from placement_sched.clients.placement import (
    PAGE_SIZE,
    RemotePlacement,
    TraitFile,
    open_trait_file,
    read_remote_hosts,
)
from placement_sched.errors import Invalid, ServiceFailed
from placement_sched.model.aggregates import SyncCode
from placement_sched.model.retry import MAX_ATTEMPTS
from placement_sched.operations.provider_sync import (
    group_by_name,
    read_local_hosts,
    sync_aggregates,
    sync_traits,
)
from tests.clients.in_process import (
    FunctionTransport,
    build_document_handler,
    build_wsgi_handler,
    compute_service,
    placement_service,
)
from tests.support.clouds import uuid_of
from tests.support.host_maps import (
    LICENSED_TRAIT,
    add_aggregate,
    add_unrecorded_trait,
    build_aggregate_join,
    build_host_map_reader,
    read_members,
    read_providers_with_trait,
    set_metadata,
)
from tests.support.hosts import add_node, add_service
from tests.support.reports import build_report

PLACEMENT_URL = "http://elsewhere/placement"
TRAIT_METADATA = {f"trait:{LICENSED_TRAIT}": "required"}


@pytest.fixture
def placement_app(sqlite_app):
    """Our own Placement API."""
    return FunctionTransport(build_wsgi_handler(sqlite_app.app))


@pytest.fixture
def placement(placement_app):
    return RemotePlacement(placement_service(placement_app, PLACEMENT_URL), pause=lambda _: None)


def test_placement_aggregates_are_synchronised_with_nova(placement_app, placement, sqlite_database):
    node_1, node_2 = add_node(sqlite_database, "cn1"), add_node(sqlite_database, "cn2")
    add_node(sqlite_database, "gone", provider=False)
    add_aggregate(sqlite_database, "a", ["cn1", "gone"])
    add_aggregate(sqlite_database, "b", ["cn1", "cn2"])
    read_hosts = build_host_map_reader(sqlite_database)
    synced = sync_aggregates(read_hosts, placement)
    members = {"a": {node_1}, "b": {node_1, node_2}}
    assert group_by_name(synced.added) == {uuid_of(name): uuids for name, uuids in members.items()}
    assert [(each.code, each.about) for each in synced.problems] == [(SyncCode.NO_PROVIDER, "gone")]
    assert {name: read_members(sqlite_database, name) for name in members} == members
    placement_app.seen.clear()
    sync_aggregates(read_hosts, placement)
    assert [seen.partition(" ")[0] for seen in placement_app.seen] == ["GET"] * 3


def test_stale_members_of_placement_aggregates_are_removed(placement, sqlite_database):
    node_1, node_2 = add_node(sqlite_database, "cn1"), add_node(sqlite_database, "cn2")
    add_aggregate(sqlite_database, "a", ["cn1"])
    placement.change(build_aggregate_join(uuid_of("a"), node_1, node_2))
    synced = sync_aggregates(build_host_map_reader(sqlite_database), placement, remove_stale=True)
    assert group_by_name(synced.removed) == {uuid_of("a"): {node_2}}
    assert read_members(sqlite_database, "a") == {node_1}


def test_trait_sync_without_a_record_file_adds_traits_and_removes_none(placement, sqlite_database):
    node = add_node(sqlite_database, "cn1")
    add_aggregate(sqlite_database, "a", ["cn1"], TRAIT_METADATA)
    read_hosts = build_host_map_reader(sqlite_database)
    synced = sync_traits(read_hosts, placement)
    assert (synced.created, synced.added) == ([LICENSED_TRAIT], {(node, LICENSED_TRAIT)})
    assert not placement.has_record
    set_metadata(sqlite_database, "a", {f"trait:{LICENSED_TRAIT}": None})
    assert sync_traits(read_hosts, placement).removed == set()
    assert read_providers_with_trait(sqlite_database) == {node}


def test_dry_run_of_a_trait_sync_reports_changes_and_writes_nothing(
    placement_app, placement, sqlite_database
):
    node = add_node(sqlite_database, "cn1")
    add_node(sqlite_database, "gone", provider=False)
    add_aggregate(sqlite_database, "a", ["cn1", "gone"], TRAIT_METADATA)
    read_hosts = build_host_map_reader(sqlite_database)
    planned = sync_traits(read_hosts, placement, dry_run=True)
    assert (planned.code, planned.added) == (SyncCode.NO_PROVIDER, {(node, LICENSED_TRAIT)})
    assert {seen.partition(" ")[0] for seen in placement_app.seen} == {"GET"}
    done = sync_traits(read_hosts, placement)
    assert (done.code, done.added, done.problems) == (planned.code, planned.added, planned.problems)


def test_trait_sync_removes_only_traits_of_the_record(placement_app, sqlite_database, tmp_path):
    ours, theirs = add_node(sqlite_database, "cn1"), add_node(sqlite_database, "cn2")
    add_aggregate(sqlite_database, "a", ["cn1", "cn2"], TRAIT_METADATA)
    add_unrecorded_trait(sqlite_database, theirs)
    read_hosts, file = build_host_map_reader(sqlite_database), tmp_path / "put.json"
    service = placement_service(placement_app, PLACEMENT_URL)
    with open_trait_file(file, service.url) as record:
        assert sync_traits(read_hosts, RemotePlacement(service, record)).added == {
            (ours, LICENSED_TRAIT)
        }
    set_metadata(sqlite_database, "a", {f"trait:{LICENSED_TRAIT}": None})
    with open_trait_file(file, service.url) as record:
        assert record.aggregates == {(ours, LICENSED_TRAIT): uuid_of("a")}
        synced = sync_traits(read_hosts, RemotePlacement(service, record))
    assert synced.removed == {(ours, LICENSED_TRAIT)}
    assert read_providers_with_trait(sqlite_database) == {theirs}
    assert TraitFile(file, service.url).aggregates == {}


def test_trait_sync_updates_aggregates_in_the_record_file(placement_app, sqlite_database, tmp_path):
    node, deleted = add_node(sqlite_database, "cn1"), "00000000-0000-4000-8000-000000000000"
    add_aggregate(sqlite_database, "a", ["cn1"])
    add_aggregate(sqlite_database, "b", ["cn1"], TRAIT_METADATA)
    add_unrecorded_trait(sqlite_database, node)
    record = TraitFile(tmp_path / "put.json", PLACEMENT_URL)
    record.aggregates = dict.fromkeys(
        [(node, LICENSED_TRAIT), (deleted, LICENSED_TRAIT)], uuid_of("a")
    )
    placement = RemotePlacement(placement_service(placement_app, PLACEMENT_URL), record)
    synced = sync_traits(build_host_map_reader(sqlite_database), placement)
    assert (synced.added, synced.removed) == (set(), set())
    assert record.aggregates == {(node, LICENSED_TRAIT): uuid_of("b")}


class PlacementWithConcurrentWriter(FunctionTransport):
    """A Placement API with another writer, which changes the provider before our next writes."""

    def __init__(self, application, database, provider, times, prefix="CUSTOM_RIVAL") -> None:
        super().__init__(build_wsgi_handler(application))
        self.database, self.provider, self.times = database, provider, times
        self.prefix = prefix

    def send(self, request, **options):
        if request.method == "PUT" and "/resource_providers/" in request.url and self.times:
            self.times -= 1
            add_unrecorded_trait(self.database, self.provider, f"{self.prefix}_{self.times}")
        return super().send(request, **options)


@pytest.mark.parametrize("times", [1, MAX_ATTEMPTS - 1])
def test_write_to_a_concurrently_changed_provider_is_retried(sqlite_app, sqlite_database, times):
    node = add_node(sqlite_database, "cn1")
    add_aggregate(sqlite_database, "a", ["cn1"], TRAIT_METADATA)
    for synchronize in (sync_aggregates, sync_traits):
        prefix = f"CUSTOM_{synchronize.__name__.upper()}"
        transport = PlacementWithConcurrentWriter(
            sqlite_app.app, sqlite_database, node, times, prefix
        )
        pauses: list[float] = []
        placement = RemotePlacement(
            placement_service(transport, PLACEMENT_URL), pause=pauses.append
        )
        assert synchronize(build_host_map_reader(sqlite_database), placement).code is SyncCode.DONE
        assert len(pauses) == times
    assert (
        read_providers_with_trait(sqlite_database) == read_members(sqlite_database, "a") == {node}
    )
    assert read_providers_with_trait(sqlite_database, "CUSTOM_SYNC_TRAITS_0") == {node}


def test_provider_that_changes_before_each_write_is_reported_by_the_sync(
    sqlite_app, sqlite_database
):
    busy, idle = add_node(sqlite_database, "busy"), add_node(sqlite_database, "idle")
    add_aggregate(sqlite_database, "a", ["busy", "idle"])
    transport = PlacementWithConcurrentWriter(sqlite_app.app, sqlite_database, busy, 1000)
    placement = RemotePlacement(placement_service(transport, PLACEMENT_URL), pause=lambda _: None)
    synced = sync_aggregates(build_host_map_reader(sqlite_database), placement)
    assert [(each.code, each.about) for each in synced.problems] == [
        (SyncCode.UPDATE_FAILED, "busy")
    ]
    assert f"{MAX_ATTEMPTS} attempts" in synced.problems[0].detail
    assert read_members(sqlite_database, "a") == {idle}


def test_concurrent_placement_syncs_have_the_result_of_one_sync(sqlite_app, sqlite_database):
    nodes = {add_node(sqlite_database, f"cn{number}") for number in range(6)}
    hosts = [f"cn{number}" for number in range(6)]
    for name in ("a", "b"):
        add_aggregate(sqlite_database, name, hosts, {f"trait:CUSTOM_{name.upper()}": "required"})
    codes = []

    def sync_aggregates_and_traits():
        placement = RemotePlacement(
            placement_service(FunctionTransport(build_wsgi_handler(sqlite_app.app)), PLACEMENT_URL)
        )
        read_hosts = build_host_map_reader(sqlite_database)
        codes.extend(each(read_hosts, placement).code for each in (sync_aggregates, sync_traits))

    threads = [threading.Thread(target=sync_aggregates_and_traits) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert set(codes) == {SyncCode.DONE}
    for name in ("a", "b"):
        assert read_members(sqlite_database, name) == nodes
        assert read_providers_with_trait(sqlite_database, f"CUSTOM_{name.upper()}") == nodes


PROVIDERS_PATH = "/placement/resource_providers"
ROCKY_VERSION = "placement 1.19"


def test_malformed_response_of_placement_is_reported():
    for documents, version, status, words in (
        ({}, None, 200, "404 told to GET /resource_providers"),
        ({}, ROCKY_VERSION, 200, "404 told to GET /resource_providers"),
        (
            *({PROVIDERS_PATH: {}}, "placement 1.10", 200),
            "is too old, or no placement API: placement microversion 1.19 (Rocky) is needed",
        ),
        ({PROVIDERS_PATH: {}}, None, 200, "is too old, or no placement API"),
        (
            *({PROVIDERS_PATH: []}, ROCKY_VERSION, 200),
            "to GET /resource_providers does not match the placement API",
        ),
        (
            *({PROVIDERS_PATH: {"errors": [{"detail": "who are\nyou"}]}}, ROCKY_VERSION, 401),
            "401 told (who are you) to GET /resource_providers. Is the token right?",
        ),
        (
            *({PROVIDERS_PATH: {"errors": [{"detail": "Minimum 1.0"}]}}, None, 406),
            "it answered 406 told (Minimum 1.0)",
        ),
    ):
        response = build_document_handler(documents, version=version, status=status)
        placement = RemotePlacement(placement_service(FunctionTransport(response), PLACEMENT_URL))
        with pytest.raises(ServiceFailed) as failure:
            placement.map_providers("aggregates", ["a"])
        assert words in failure.value.detail
        assert failure.value.service == "placement", words


def test_placement_without_the_required_microversion_is_406(sqlite_app):
    service = placement_service(
        FunctionTransport(build_wsgi_handler(sqlite_app.app)), PLACEMENT_URL
    )
    service._version = "1.99"
    with pytest.raises(ServiceFailed, match="is too old"):
        service.get_json("GET", "/traits")


SYNC_RECORD_START = '{"format": 2, "placement": "x", "traits": '


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no record of sync_traits"),
        ("\x00\n", "no record of sync_traits"),
        ("[]\n", "no record of sync_traits"),
        ('{"format": 2, "placement": "x"}\n', "no record of sync_traits"),
        (f'{SYNC_RECORD_START}[{{"provider": "a"}}]}}\n', "no record of sync_traits"),
        (f"{SYNC_RECORD_START}[]", "no record of sync_traits"),
        ('{"format": 2, "placement": "y", "traits": []}\n', "the record of y, not of x"),
    ],
)
def test_invalid_record_file_of_trait_sync_is_rejected_unchanged(tmp_path, text, words):
    file = tmp_path / "put.json"
    file.write_text(text)
    with pytest.raises(Invalid, match=words), open_trait_file(file, "x"):
        pass
    assert file.read_text() == text


def test_record_file_of_trait_sync_is_written_at_the_end(tmp_path):
    file = tmp_path / "put.json"
    with open_trait_file(file, "x") as record:
        record.aggregates = {("p", "A"): "a", ("p", "B"): "a"}
        record.save()
        assert TraitFile(file, "x").aggregates == {("p", "A"): "a", ("p", "B"): "a"}
        record.aggregates = {("p", "B"): "a"}
    assert json.loads(file.read_text()) == {
        "placement": "x",
        "traits": [{"provider": "p", "trait": "B", "aggregate": "a"}],
    }
    assert list(tmp_path.iterdir()) == [file]


def test_unwritable_record_file_of_trait_sync_is_reported(tmp_path):
    with (
        pytest.raises(Invalid, match="No such file"),
        open_trait_file(tmp_path / "no" / "put.json", "x") as record,
    ):
        record.aggregates = {("p", "A"): "a"}


class PlacementWithLostConnection(FunctionTransport):
    """A placement API that is lost before or after a number of writes of traits."""

    def __init__(self, application, failure, writes, *, is_late) -> None:
        super().__init__(build_wsgi_handler(application))
        self.failure, self.writes, self.is_late = failure, writes, is_late

    def send(self, request, **options):
        if not (request.method == "PUT" and request.url.endswith("/traits")):
            return super().send(request, **options)
        self.writes -= 1
        if self.writes < 0:
            if self.is_late:
                super().send(request, **options)
            raise self.failure
        return super().send(request, **options)


@pytest.mark.parametrize("writes", [0, 1, 2])
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
def test_next_trait_sync_completes_an_interrupted_sync(
    sqlite_app, sqlite_database, tmp_path, monkeypatch, writes, is_late, is_killed
):
    """A killed process has recorded only its plan."""
    monkeypatch.setattr("placement_sched.clients.session.RETRIES", 0)
    nodes = {add_node(sqlite_database, name) for name in ("cn1", "cn2", "cn3")}
    theirs = add_node(sqlite_database, "cn4")
    add_aggregate(sqlite_database, "a", ["cn1", "cn2", "cn3", "cn4"], TRAIT_METADATA)
    add_unrecorded_trait(sqlite_database, theirs)
    read_hosts, file = build_host_map_reader(sqlite_database), tmp_path / "put.json"

    def run_trait_sync(transport):
        service = placement_service(transport, PLACEMENT_URL)
        with open_trait_file(file, service.url) as record:
            return sync_traits(read_hosts, RemotePlacement(service, record))

    def run_and_interrupt_trait_sync():
        transport = PlacementWithLostConnection(
            sqlite_app.app, KeyboardInterrupt, writes, is_late=is_late
        )
        if not is_killed:
            transport.failure = requests.ConnectionError("gone")
            assert run_trait_sync(transport).code is SyncCode.PLACEMENT_FAILED
            return
        service = placement_service(transport, PLACEMENT_URL)
        record = TraitFile(file, service.url)
        with pytest.raises(KeyboardInterrupt):
            sync_traits(read_hosts, RemotePlacement(service, record))

    run_and_interrupt_trait_sync()
    assert len(read_providers_with_trait(sqlite_database)) == 1 + writes + is_late
    run_trait_sync(FunctionTransport(build_wsgi_handler(sqlite_app.app)))
    assert read_providers_with_trait(sqlite_database) == nodes | {theirs}
    set_metadata(sqlite_database, "a", {f"trait:{LICENSED_TRAIT}": None})
    run_and_interrupt_trait_sync()
    run_trait_sync(FunctionTransport(build_wsgi_handler(sqlite_app.app)))
    assert read_providers_with_trait(sqlite_database) == {theirs}
    assert TraitFile(file, PLACEMENT_URL).aggregates == {}


def test_traits_set_before_a_placement_failure_are_recorded(
    sqlite_app, sqlite_database, tmp_path, monkeypatch
):
    monkeypatch.setattr("placement_sched.clients.session.RETRIES", 0)
    nodes = sorted(add_node(sqlite_database, f"cn{number}") for number in range(4))
    add_aggregate(sqlite_database, "a", [f"cn{number}" for number in range(4)], TRAIT_METADATA)
    failure, file = requests.ConnectionError("gone"), tmp_path / "put.json"
    transport = PlacementWithLostConnection(sqlite_app.app, failure, 2, is_late=False)
    service = placement_service(transport, PLACEMENT_URL)
    with open_trait_file(file, PLACEMENT_URL) as record:
        synced = sync_traits(
            build_host_map_reader(sqlite_database), RemotePlacement(service, record)
        )
        assert {uuid for uuid, _ in TraitFile(file, PLACEMENT_URL).aggregates} == {*nodes}
    assert synced.code is SyncCode.PLACEMENT_FAILED
    assert synced.added == {(uuid, LICENSED_TRAIT) for uuid in nodes[:2]}
    # The third may have been changed, as only the response is lost. The fourth was not tried.
    assert {uuid for uuid, _ in TraitFile(file, PLACEMENT_URL).aggregates} == {*nodes[:3]}
    assert read_providers_with_trait(sqlite_database) == {*nodes[:2]}


NOVA_URL = "http://nova/v2.1"


def build_hypervisor(number: int, host: str | None = None) -> dict:
    uuid = f"00000000-0000-4000-8000-{number:012}"
    name = f"cn{number}"
    return {
        "id": uuid,
        "hypervisor_hostname": name,
        "service": {"host": host or name, "id": uuid, "disabled_reason": None},
    }


def build_pager_of_hypervisors(hypervisors: list[dict], max_limit: int = PAGE_SIZE):
    """Return a function that pages like nova, with at most ``max_limit`` items per page."""

    def build_hypervisors_page(target: str) -> dict:
        query = parse_qs(urlsplit(target).query)
        limit, start = min(int(query["limit"][0]), max_limit), 0
        if marker := query.get("marker"):
            start = [each["id"] for each in hypervisors].index(marker[0]) + 1
        return {"hypervisors": hypervisors[start : start + limit]}

    return build_hypervisors_page


def build_compute_api_documents(hypervisors: list[dict]) -> dict:
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
        "/v2.1/os-hypervisors/detail": build_pager_of_hypervisors(hypervisors),
    }


def read_hosts_from_documents(documents, **options):
    return read_remote_hosts(
        compute_service(FunctionTransport(build_document_handler(documents, **options)), NOVA_URL)
    )


def test_aggregates_with_hosts_and_nodes_are_read_from_compute_api_documents():
    hosts = read_hosts_from_documents(
        build_compute_api_documents(
            [build_hypervisor(1), build_hypervisor(2, "ironic"), build_hypervisor(3, "ironic")]
        )
    )
    assert [each.name for each in hosts.aggregates] == ["zone", "windows"]
    assert hosts.aggregates[1].hosts == {"cn1", "ghost"}
    assert hosts.aggregates[1].metadata == {"trait:CUSTOM_LICENSED": "required"}
    assert hosts.service_hosts == {"cn1", "ironic", "serving"}
    assert hosts.nodes == {
        "cn1": {build_hypervisor(1)["id"]},
        "ironic": {build_hypervisor(2)["id"], build_hypervisor(3)["id"]},
    }


@pytest.mark.parametrize("number", [PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1])
def test_hypervisors_are_read_page_by_page(number):
    hosts = read_hosts_from_documents(
        build_compute_api_documents([build_hypervisor(each) for each in range(number)])
    )
    assert len(hosts.nodes) == number


@pytest.mark.parametrize("max_limit", [1, 3, 7, 10])
def test_all_hypervisors_are_read_if_nova_has_smaller_pages(max_limit):
    hypervisors = [build_hypervisor(each) for each in range(7)]
    documents = build_compute_api_documents([]) | {
        "/v2.1/os-hypervisors/detail": build_pager_of_hypervisors(hypervisors, max_limit)
    }
    assert len(read_hosts_from_documents(documents).nodes) == 7


def test_each_hypervisor_is_read_once_if_nova_ignores_the_marker():
    hypervisors = [build_hypervisor(each) for each in range(3)]
    documents = build_compute_api_documents([]) | {
        "/v2.1/os-hypervisors/detail": {"hypervisors": hypervisors}
    }
    transport = FunctionTransport(build_document_handler(documents))
    hosts = read_remote_hosts(compute_service(transport, NOVA_URL))
    assert len(hosts.nodes) == 3
    assert len([seen for seen in transport.seen if "os-hypervisors" in seen]) == 2


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [
        ("compute 2.1", 200, "compute microversion 2.53 (Pike) is needed"),
        (None, 200, "is too old, or no compute API"),
        (None, 406, "is too old, or no compute API"),
        ("compute 2.53", 403, "403 told to GET /os-aggregates"),
    ],
)
def test_unsupported_microversion_of_nova_is_reported(version, status, words):
    with pytest.raises(ServiceFailed) as failure:
        read_hosts_from_documents(build_compute_api_documents([]), version=version, status=status)
    assert words in failure.value.detail
    assert failure.value.service == "compute"


@pytest.mark.parametrize("document", [[], {}, {"aggregates": [{}]}, {"aggregates": [1]}])
def test_malformed_aggregates_document_of_nova_is_reported(document):
    with pytest.raises(ServiceFailed, match="to GET /os-aggregates does not match"):
        read_hosts_from_documents(
            build_compute_api_documents([]) | {"/v2.1/os-aggregates": document}
        )


def test_hosts_read_from_our_compute_api_equal_those_of_the_database(sqlite_app, sqlite_database):
    sqlite_app.post_json(
        "/scheduler/v1/compute_nodes", [build_report(number) for number in range(2, 6)]
    )
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [build_report(6, host="cn2")])
    add_service(sqlite_database, "serving")
    add_aggregate(sqlite_database, "a", ["cn2", "cn3", "ghost"], {"trait:CUSTOM_A": "required"})
    add_aggregate(sqlite_database, "b")
    service = compute_service(
        FunctionTransport(build_wsgi_handler(sqlite_app.app)), "http://ours/compute/v2.1"
    )
    local_hosts = read_local_hosts(sqlite_database)
    without_times = (
        replace(aggregate, created_at=None, updated_at=None) for aggregate in local_hosts.aggregates
    )
    assert read_remote_hosts(service) == replace(local_hosts, aggregates=tuple(without_times))
