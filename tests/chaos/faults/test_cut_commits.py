# SPDX-License-Identifier: Apache-2.0
"""Writes whose COMMIT gets no response are done once, and reported as done."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from webtest import TestApp

from placement_sched.db import commit_marks
from tests.chaos.faults.cutting_proxy import CommitCut, ConnectionCuttingProxy, run_database_proxy
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.conftest import make_settings
from tests.support.scheduling import get_selected_hosts, make_report, make_spec
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import assert_invariants

#: Number of COMMITs that are cut on each database.
COMMITS_TO_CUT = choose_count(16, 300)
#: A COMMIT to SQLite crosses no network.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True),
]
SELECT_PATH = "/scheduler/v1/select_destinations"


@dataclass
class WritesWithCutCommits:
    """Sends each kind of write through a proxy, and checks through another application."""

    app: TestApp
    proxy: ConnectionCuttingProxy
    #: An application whose connections are not cut.
    direct_app: TestApp
    provider: str = field(default_factory=lambda: str(uuid4()))
    host: str = field(default_factory=lambda: f"cn-{uuid4()}")

    def __post_init__(self) -> None:
        self._send_write(
            "post", "/resource_providers", {"uuid": self.provider, "name": self.provider}
        )
        inventories = {"VCPU": {"total": 10_000}}
        body = {"resource_provider_generation": 0, "inventories": inventories}
        self._send_write("put", f"{self._provider_path}/inventories", body)
        large = {"vcpus": 10_000, "memory_mb": 100_000_000, "local_gb": 1_000_000}
        self.app.post_json("/scheduler/v1/compute_nodes", [make_report(self.host, **large)])

    @property
    def write_functions(self) -> list[Callable[..., None]]:
        return [
            self.put_allocations_of_new_consumer,
            self.put_allocations_of_existing_consumer,
            self.delete_allocations_of_consumer,
            self.create_provider,
            self.delete_provider,
            self.select_destination,
        ]

    def put_allocations_of_new_consumer(self, *cuts: CommitCut) -> None:
        self._put_and_check_claim(str(uuid4()), 1, None, *cuts)

    def put_allocations_of_existing_consumer(self, *cuts: CommitCut) -> None:
        consumer = str(uuid4())
        self._put_and_check_claim(consumer, 1, None)
        self._put_and_check_claim(consumer, 2, 1, *cuts)

    def delete_allocations_of_consumer(self, *cuts: CommitCut) -> None:
        consumer = str(uuid4())
        self._put_and_check_claim(consumer, 1, None)
        self._send_write("delete", f"/allocations/{consumer}", None, *cuts)
        assert self._read_resource(f"/allocations/{consumer}")["allocations"] == {}

    def create_provider(self, *cuts: CommitCut) -> None:
        uuid = str(uuid4())
        self._send_write("post", "/resource_providers", {"uuid": uuid, "name": uuid}, *cuts)
        assert self._read_resource(f"/resource_providers/{uuid}")["generation"] == 0

    def delete_provider(self, *cuts: CommitCut) -> None:
        uuid = str(uuid4())
        self._send_write("post", "/resource_providers", {"uuid": uuid, "name": uuid})
        self._send_write("delete", f"/resource_providers/{uuid}", None, *cuts)
        self._read_resource(f"/resource_providers/{uuid}", status=404)

    def select_destination(self, *cuts: CommitCut) -> None:
        instance = str(uuid4())
        self.proxy.planned_cuts = list(cuts)
        response = self.app.post_json(SELECT_PATH, {"request_spec": make_spec(instance)})
        assert get_selected_hosts(response.json) == [self.host]
        assert self.proxy.planned_cuts == []
        assert len(self._read_resource(f"/allocations/{instance}")["allocations"]) == 1

    @property
    def _provider_path(self) -> str:
        return f"/resource_providers/{self.provider}"

    def _put_and_check_claim(
        self, consumer: str, amount: int, generation: int | None, *cuts: CommitCut
    ) -> None:
        before = self._read_generation()
        self._send_write(
            "put", f"/allocations/{consumer}", self._build_claim(amount, generation), *cuts
        )
        self._check_claimed_amount(consumer, amount, (generation or 0) + 1)
        assert self._read_generation() == before + 1

    def _build_claim(self, amount: int, generation: int | None) -> dict[str, Any]:
        return {
            "allocations": {self.provider: {"resources": {"VCPU": amount}}},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": generation,
            "consumer_type": "INSTANCE",
        }

    def _check_claimed_amount(self, consumer: str, amount: int, generation: int) -> None:
        claim = self._read_resource(f"/allocations/{consumer}")
        assert claim["allocations"][self.provider]["resources"] == {"VCPU": amount}
        assert claim["consumer_generation"] == generation

    def _read_generation(self) -> int:
        generation: int = self._read_resource(self._provider_path)["generation"]
        return generation

    def _send_write(self, method: str, path: str, body: object, *cuts: CommitCut) -> Any:
        """Send a request with cut COMMITs, which must nevertheless succeed."""
        self.proxy.planned_cuts = list(cuts)
        send = getattr(self.app, method if body is None else f"{method}_json")
        arguments = () if body is None else (body,)
        response = send(f"/placement{path}", *arguments, headers=LATEST_HEADERS)
        assert self.proxy.planned_cuts == [], "a COMMIT was not cut"
        return response

    def _read_resource(self, path: str, *, status: int = 200) -> Any:
        path = f"/placement{path}"
        return self.direct_app.get(path, headers=LATEST_HEADERS, status=status).json


@pytest.fixture
def proxied_database(database_url) -> Iterator[tuple[ConnectionCuttingProxy, str]]:
    with run_database_proxy(database_url) as (proxy, url):
        yield proxy, url


@pytest.fixture
def writes_with_cut_commits(database_url, proxied_database, make_app) -> WritesWithCutCommits:
    proxy, url = proxied_database
    return WritesWithCutCommits(
        make_app(make_settings(url)), proxy, make_app(make_settings(database_url))
    )


def test_write_succeeds_once_when_its_commit_is_cut(
    writes_with_cut_commits, database, record_property
):
    twice = [
        [CommitCut.BEFORE_DATABASE, cut]
        for cut in (CommitCut.BEFORE_RESPONSE, CommitCut.WHILE_SENT)
    ]
    plans = [*([cut] for cut in CommitCut), *twice]
    kinds = writes_with_cut_commits.write_functions
    # Six rounds combine every kind with every plan.
    for number in count():
        turn, kind = divmod(number, len(kinds))
        kinds[kind](*plans[(turn + kind) % len(plans)])
        if writes_with_cut_commits.proxy.cuts >= COMMITS_TO_CUT:
            break
    assert_invariants(database)
    record_property(
        TRIED_KEY,
        f"{writes_with_cut_commits.proxy.cuts} COMMITs cut on {database.reader.dialect.name}",
    )


def test_unavailable_database_after_a_commit_is_503_with_the_reason(
    writes_with_cut_commits, monkeypatch
):
    monkeypatch.setattr(commit_marks, "MAX_COMMIT_QUERY_TIME", 0.2)
    uuid = str(uuid4())
    writes_with_cut_commits.proxy.refuses_after_cut = True
    writes_with_cut_commits.proxy.planned_cuts = [CommitCut.BEFORE_RESPONSE]
    body = {"uuid": uuid, "name": uuid}
    response = writes_with_cut_commits.app.post_json(
        "/placement/resource_providers", body, headers=LATEST_HEADERS, status=503
    )
    (error,) = response.json["errors"]
    assert "not known whether the transaction was committed" in error["detail"]
    assert response.headers["Retry-After"] == "1"
    writes_with_cut_commits.proxy.refuses_after_cut = (
        writes_with_cut_commits.proxy.refuses_connections
    ) = False
    writes_with_cut_commits.create_provider()


def test_transaction_that_only_reads_writes_no_commit_mark(writes_with_cut_commits):
    services = writes_with_cut_commits.app.app.services
    before = count_commit_marks(services.database)
    services.database.write(lambda connection: connection.exec_driver_sql("SELECT 1").scalar_one())
    assert count_commit_marks(services.database) == before
    writes_with_cut_commits.create_provider()
    assert count_commit_marks(services.database) == before + 1


def count_commit_marks(database) -> int:
    with database.read() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM sched_commit_marks").scalar_one()
