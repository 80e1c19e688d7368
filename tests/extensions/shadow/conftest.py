# SPDX-License-Identifier: Apache-2.0
"""A nova in SQLite files, resource providers of its hosts, and a shadow."""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.extensions.shadow import service, store
from placement_sched.extensions.shadow.evaluator import AwaitedRequest, Evaluator, read_call
from placement_sched.extensions.shadow.service import OutcomeTracker
from placement_sched.model.clock import utcnow
from placement_sched.model.provider import INSTANCE_TYPE, ConsumerClaim, Inventory
from placement_sched.model.shadow_result import ShadowResult
from placement_sched.nova.databases.placements import NovaRecords
from placement_sched.nova.sync.follower import Follower
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.placement import allocations, inventories, resource_providers
from placement_sched.store.placement.resource_providers import NewProvider
from tests.nova import conftest as nova_fixtures
from tests.support.nova_clouds import NovaCloud, build_flavor_json, build_nova_object

#: Fixtures of ``tests/nova``.
bus, nova = nova_fixtures.bus, nova_fixtures.nova
make_follower, two_host_nova = nova_fixtures.make_follower, nova_fixtures.two_host_nova
HOST_CAPACITY = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 1000}
REQUEST_ID = "req-00000000-0000-4000-8000-000000000001"


def build_request_spec(**changes: Any) -> dict[str, Any]:
    flavor = json.loads(build_flavor_json(extra_specs={}))["cur"]
    return build_nova_object(
        "RequestSpec",
        "1.15",
        {"project_id": "demo", "user_id": "ann", "num_instances": 1, "flavor": flavor, **changes},
    )


def build_select_destinations_message(*uuids: str, **changes: Any) -> dict[str, Any]:
    inside = {
        "method": "select_destinations",
        "version": "4.5",
        "args": {"spec_obj": build_request_spec(**changes), "instance_uuids": list(uuids)},
        "_context_request_id": REQUEST_ID,
        "_context_global_request_id": None,
    }
    return {"oslo.version": "2.0", "oslo.message": json.dumps(inside)}


class ShadowSetup:
    """A cloud and a shadow, whose steps a test calls in order."""

    def __init__(
        self, nova: NovaCloud, database: Database, settings: Settings, follower: Follower
    ) -> None:
        self.nova, self.database, self.settings, self.follower = nova, database, settings, follower
        self.scheduler = Scheduler(
            database=database,
            settings=settings,
            clock=utcnow,
            random=Random(1),
            caches=ProcessCaches(),
        )
        self.records = NovaRecords(follower.settings)
        self.evaluator = Evaluator(self.scheduler, follower.refresh, utcnow)
        self.awaiting = OutcomeTracker(
            database=database, records=self.records, explain=self.scheduler.explain, clock=utcnow
        )
        self.nodes: dict[str, str] = {}

    def add_host(self, name: str, *, free: int = 8192) -> None:
        self.nodes[name] = uuid = self.nova.add_host(name, free_ram_mb=free)

        def write_rows(connection: Any) -> None:
            ids = resource_providers.create_many(connection, [NewProvider(uuid, name)], utcnow())
            stock = [
                Inventory(resource_class=key, total=total) for key, total in HOST_CAPACITY.items()
            ]
            inventories.put(connection, {ids[uuid]: stock}, utcnow())

        self.database.write(write_rows)

    def claim_resources(self, uuid: str, *hosts: str, memory: int = 2048) -> None:
        amounts = {"VCPU": 1, "MEMORY_MB": memory, "DISK_GB": 20}
        claim = ConsumerClaim(
            consumer=uuid,
            allocations={self.nodes[host]: amounts for host in hosts},
            project_id="demo",
            user_id="ann",
            consumer_type=INSTANCE_TYPE,
            generation=None,
        )

        def write_rows(connection: Any) -> None:
            allocations.remove(connection, [uuid])
            allocations.replace(connection, [claim], utcnow())

        self.database.write(write_rows)

    def receive_request(self, *uuids: str, **changes: Any) -> AwaitedRequest | None:
        call = read_call(build_select_destinations_message(*uuids, **changes))
        assert call is not None
        request = self.evaluator.evaluate(call)
        if request is not None:
            self.awaiting.add(request)
        return request

    def read_outcomes_and_list_results(self) -> list[ShadowResult]:
        self.awaiting.step()
        return self.list_results()

    def list_results(self) -> list[ShadowResult]:
        with self.database.read() as connection:
            return list(store.list_since(connection, None))

    def record_nova_action(
        self, cell: Any, uuid: str, *events: tuple[str, str | None, str | None, str]
    ) -> None:
        action = cell.add(
            "instance_actions", instance_uuid=uuid, request_id=REQUEST_ID, action="create"
        )
        for event, host, result, trace in events:
            cell.add(
                "instance_actions_events",
                action_id=action,
                event=event,
                host=host,
                result=result,
                traceback=trace,
            )

    def close(self) -> None:
        self.records.close()


@pytest.fixture
def shadow_setup(
    nova: NovaCloud,
    database: Database,
    settings: Settings,
    make_follower: Callable[..., Follower],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ShadowSetup]:
    # nova's databases are read at every call, without a pause.
    monkeypatch.setattr(service, "RECORDS_PAUSE", 0.0)
    monkeypatch.setattr(service, "_CLAIM_WAIT", 0.0)
    setup = ShadowSetup(nova, database, settings, make_follower(nova))
    setup.add_host("cn1", free=8192)
    setup.add_host("cn2", free=4096)
    setup.follower.sync_all()
    yield setup
    setup.close()


@pytest.fixture
def instance_uuid() -> str:
    return str(uuid4())
