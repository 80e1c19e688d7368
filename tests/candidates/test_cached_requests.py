# SPDX-License-Identifier: Apache-2.0
"""Requests to a worker with a provider cache and the change log that triggers write."""

from threading import Event

import pytest
from webtest import TestApp

from placement_sched.store.placement import provider_state
from tests.candidates.documented import build_cloud, provider
from tests.candidates.reference import SHARING_TRAIT
from tests.conftest import make_settings
from tests.support.allocation_bodies import build_body
from tests.support.clouds import Cloud, load_cloud, uuid_of
from tests.support.metrics import read_metric_samples
from tests.support.statements import record_statements
from tests.support.versions import LATEST, LATEST_HEADERS

pytestmark = pytest.mark.provider_cache

NESTED_PROVIDERS_QUERY = (
    "resources=DISK_GB:1&resources_CPU=VCPU:1&same_subtree=_CPU&group_policy=isolate"
)
SHARED_DISK_QUERY = "resources=VCPU:1,DISK_GB:1&required=CUSTOM_GOLD"
QUERIES_AND_CLOUDS = {
    "flat": (
        "resources=VCPU:1",
        Cloud(tuple(provider(f"CN{number}", {"VCPU": 4}) for number in range(4))),
    ),
    "nested": (
        NESTED_PROVIDERS_QUERY,
        Cloud(
            tuple(
                host
                for number in range(3)
                for host in (
                    provider(f"CN{number}", {"DISK_GB": 9}),
                    provider(f"NUMA{number}", {"VCPU": 4}, under=f"CN{number}"),
                )
            )
        ),
    ),
    "shared": (
        SHARED_DISK_QUERY,
        build_cloud(
            provider("pool", {"DISK_GB": 99}, traits=[SHARING_TRAIT], aggregates=["pool"]),
            provider("CN", {"VCPU": 4}, traits=["CUSTOM_GOLD"], aggregates=["pool"]),
        ),
    ),
}


@pytest.fixture
def make_worker(database_url, make_app):
    """Return a function that creates a worker. All workers have the same database."""

    def build_worker(**options):
        app = make_app(make_settings(database_url, **options))
        services = app.app.services
        services.ready()
        services.scheduler.caches.fill(services.database)
        return app

    return build_worker


@pytest.mark.usefixtures("provider_cache_thread")
def test_worker_is_ready_when_its_cache_is_loaded(database_url, make_app, monkeypatch):
    enough, read_all = Event(), provider_state.read_all_providers

    def delay_cache_load(connection):
        assert enough.wait(timeout=60)
        return read_all(connection)

    monkeypatch.setattr(provider_state, "read_all_providers", delay_cache_load)
    app = make_app(make_settings(database_url))
    query = "/placement/allocation_candidates?resources=VCPU:1"
    assert app.get(query, headers=LATEST_HEADERS).json["allocation_requests"] == []
    response = TestApp(app.app).get("/healthz/ready", status=503)
    assert response.json["reason"] == "the provider cache is being loaded"
    enough.set()
    app.app.services.scheduler.caches.provider_cache.wait(60)
    TestApp(app.app).get("/healthz/ready", status=200)


def _request_candidates(app, query):
    return app.get(f"/placement/allocation_candidates?{query}", headers=LATEST_HEADERS)


@pytest.mark.parametrize("kind", QUERIES_AND_CLOUDS)
def test_cached_request_on_an_unchanged_cloud_takes_one_statement(make_worker, kind):
    query, cloud = QUERIES_AND_CLOUDS[kind]
    cached, plain = make_worker(), make_worker(placement__providers_in_memory=False)
    database = cached.app.services.database
    load_cloud(database, cloud)
    expected = _request_candidates(plain, query)
    assert len(expected.json["allocation_requests"]) > 0
    for _ in range(2):
        with record_statements(database) as recorded_statements:
            assert _request_candidates(cached, query).body == expected.body
    assert recorded_statements == []
    assert list(map(len, recorded_statements.refreshes)) == [1]


def test_cached_worker_finds_changes_of_another_worker(make_worker):
    query, cloud = QUERIES_AND_CLOUDS["flat"]
    worker, other_worker = make_worker(), make_worker()
    load_cloud(worker.app.services.database, cloud)
    assert len(_request_candidates(worker, query).json["allocation_requests"]) == 4
    body = build_body(LATEST, {uuid_of("CN0"): {"VCPU": 4}})
    path = f"/placement/allocations/{uuid_of('consumer')}"
    other_worker.put_json(path, body, headers=LATEST_HEADERS)
    assert len(_request_candidates(worker, query).json["allocation_requests"]) == 3
    other_worker.delete(path, headers=LATEST_HEADERS)
    assert len(_request_candidates(worker, query).json["allocation_requests"]) == 4
    new = {"uuid": uuid_of("new"), "name": "new"}
    other_worker.post_json("/placement/resource_providers", new, headers=LATEST_HEADERS)
    stocks = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}
    place = f"/placement/resource_providers/{uuid_of('new')}"
    other_worker.put_json(f"{place}/inventories", stocks, headers=LATEST_HEADERS)
    other_worker.put_json("/placement/traits/CUSTOM_NEW", {}, headers=LATEST_HEADERS)
    assert (
        _request_candidates(worker, f"{query}&required=CUSTOM_NEW").json["allocation_requests"]
        == []
    )
    named = {"resource_provider_generation": 1, "traits": ["CUSTOM_NEW"]}
    other_worker.put_json(f"{place}/traits", named, headers=LATEST_HEADERS)
    response = _request_candidates(worker, f"{query}&required=CUSTOM_NEW").json
    assert list(response["provider_summaries"]) == [uuid_of("new")]
    other_worker.delete(place, headers=LATEST_HEADERS)
    assert len(_request_candidates(worker, query).json["allocation_requests"]) == 4


def test_metrics_show_the_provider_cache_size(make_worker):
    query, cloud = QUERIES_AND_CLOUDS["flat"]
    app = make_worker()
    load_cloud(app.app.services.database, cloud)
    _request_candidates(app, query)
    (providers,) = read_metric_samples(app, "provider_cache_providers").values()
    (readings,) = read_metric_samples(app, "provider_cache_full_readings_total").values()
    (size,) = read_metric_samples(app, "provider_cache_bytes").values()
    assert (providers, readings) == (4, 1)
    assert size > 0
