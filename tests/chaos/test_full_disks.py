# SPDX-License-Identifier: Apache-2.0
"""Full disks: writes are rejected with the reason, and succeed after space is freed."""

import resource
from dataclasses import dataclass, field
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import func, select

from placement_sched.db.tables import resource_provider_aggregates, resource_providers
from placement_sched.db.transaction import Database
from tests.chaos.fault_injection import claim_during_faults, open_database_with_schema
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.chaos.small_disk import SmallDisk, mount_small_disk
from tests.support.mariadb import MariaDB, run_mariadb
from tests.support.postgresql import PostgreSQL, run_postgresql
from tests.support.servers import Server, wait_until
from tests.support.versions import LATEST
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.chaos

PLACEMENT_VERSION = f"placement {LATEST}"
SQLITE_ROUNDS = choose_count(2, 20)
#: How often the disk of a database server is full.
FULL_DISK_ROUNDS = choose_count(2, 6)
#: Additional attempts if the database always stopped before it rejected a write.
MAX_EXTRA_ROUNDS = 10
#: Part of the reason for a rejection on a full disk.
FULL_DISK_REASON = "its disk is full or fails"
#: Rejections to wait for on each full disk, and the maximum number of writes until then.
REJECTIONS_PER_ROUND, MAX_WRITES_PER_ROUND = 5, 1000
#: Aggregates of a provider in a write. They need disk space, and are stored all or not at all.
AGGREGATES_PER_PROVIDER = 1000
#: Minimum and maximum of the seconds between two full disks.
PAUSE_RANGE = (0.5, 1.5)
#: Megabytes of the disk. A new database and its log take a half.
DISK_MEGABYTES = 160
#: Maximum number of new log files until PostgreSQL stops on a full disk.
MAX_LOG_FILES = 40


def create_provider(server: Server, uuid: str | None = None) -> tuple[int, str]:
    """Create a provider, and return the status and the response."""
    body = {"uuid": uuid or str(uuid4()), "name": str(uuid4())}
    headers = {"OpenStack-API-Version": PLACEMENT_VERSION}
    status, text = server.send("POST", "/placement/resource_providers", body, **headers)
    return status, str(text)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_writes_on_a_full_disk_fail_and_later_succeed(
    serve, database_url, database, record_property
):
    server = serve(OS_PLACEMENT_DATABASE__CONNECTION=database_url)
    acknowledged = 0
    (worker,) = server.workers()
    _soft, hard = resource.prlimit(worker, resource.RLIMIT_FSIZE)
    for _round in range(SQLITE_ROUNDS):
        # No file can grow: SQLite gets the same errors as on a full disk.
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (4096, hard))
        for _ in range(5):
            status, text = create_provider(server)
            assert status == 503, text
            assert "disk" in text, text
        assert server.get("/healthz")[0] == 200
        assert server.get("/placement/resource_providers")[0] == 200
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (hard, hard))
        assert wait_until(lambda: create_provider(server)[0] == 200)
        for _ in range(5):
            status, text = create_provider(server)
            assert status == 200, text
        acknowledged += 6
    listed = server.request_json("GET", "/placement/resource_providers", version=PLACEMENT_VERSION)
    assert len(listed["resource_providers"]) == acknowledged
    assert "Traceback" not in server.log.read_text()
    assert_invariants(database)
    record_property(TRIED_KEY, f"SQLite: {SQLITE_ROUNDS} times full")


@dataclass
class DiskFiller:
    """Fills the disk of a database server until writes are rejected, then frees space."""

    disk: SmallDisk
    data_server: PostgreSQL | MariaDB
    server: Server
    #: Providers with stored aggregates, with rejected aggregates, or with an unclear outcome.
    acknowledged: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    unclear: set[str] = field(default_factory=set)
    #: Number of times that the database stopped by itself.
    stops: int = 0
    rounds: int = 0

    def fill_and_free_disk(self) -> None:
        """Fill the disk, write, free space, and write again."""
        self.rounds += 1
        try:
            self._write_until_disk_is_full()
            assert self.server.get("/healthz")[0] == 200
            status, _, text = self.server.get("/placement/resource_providers?name=none")
            assert status == 200 or not self.data_server.is_ready(), text
            if self.rounds % 2 == 0 and isinstance(self.data_server, PostgreSQL):
                self.stops += fill_disk_with_log_files(self.data_server)
        finally:
            self.disk.free_space()
        self._restart_stopped_database()
        assert wait_until(self._write_provider)

    def _write_provider(self) -> bool:
        """Write a provider with aggregates, record the outcome, and return the success."""
        uuid = str(uuid4())
        status, text = create_provider(self.server, uuid)
        if status == 200:
            body = {
                "resource_provider_generation": 0,
                "aggregates": [str(uuid4()) for _ in range(AGGREGATES_PER_PROVIDER)],
            }
            path = f"/placement/resource_providers/{uuid}/aggregates"
            headers = {"OpenStack-API-Version": PLACEMENT_VERSION}
            status, document = self.server.send("PUT", path, body, **headers)
            text = str(document)
        assert status in {200, 503}, text
        rejected = self.rejected if FULL_DISK_REASON in text else self.unclear
        (self.acknowledged if status == 200 else rejected).add(uuid)
        return status == 200

    def _write_until_disk_is_full(self) -> None:
        before = len(self.rejected)
        for _ in range(MAX_WRITES_PER_ROUND):
            self.disk.fill()
            self._write_provider()
            if (
                len(self.rejected) >= before + REJECTIONS_PER_ROUND
                or not self.data_server.is_alive()
            ):
                return
        raise AssertionError(f"{MAX_WRITES_PER_ROUND} writes were not rejected for a full disk")

    def _restart_stopped_database(self) -> None:
        """Restart a database that stopped by itself, as a service manager does."""
        assert wait_until(lambda: self.data_server.is_ready() or not self.data_server.is_alive())
        if not self.data_server.is_alive():
            self.stops += 1
            self.data_server.start()


def fill_disk_with_log_files(postgresql: PostgreSQL) -> bool:
    """Start new log files, and return whether PostgreSQL stopped for lack of space."""
    for _ in range(MAX_LOG_FILES):
        try:
            postgresql.query("SELECT pg_logical_emit_message(true, '', '')")
            postgresql.query("SELECT pg_switch_wal()")
        except psycopg.OperationalError:
            return True
    return False


def claim_while_disks_are_full(filler: DiskFiller, database: Database) -> str:
    """Let clients claim on full disks, check the database, and return a summary."""
    summary = claim_during_faults(
        database,
        [filler.server],
        filler.fill_and_free_disk,
        FULL_DISK_ROUNDS,
        PAUSE_RANGE,
        "times full",
    )
    # The database may have stopped each time before it rejected a write.
    while (
        len(filler.rejected) < REJECTIONS_PER_ROUND
        and filler.rounds < FULL_DISK_ROUNDS + MAX_EXTRA_ROUNDS
    ):
        filler.fill_and_free_disk()
    aggregate_counts = (
        select(resource_providers.c.uuid, func.count(resource_provider_aggregates.c.aggregate_id))
        .outerjoin(
            resource_provider_aggregates,
            resource_provider_aggregates.c.resource_provider_id == resource_providers.c.id,
        )
        .group_by(resource_providers.c.uuid)
    )
    assert len(filler.rejected) >= REJECTIONS_PER_ROUND
    with database.read() as connection:
        counts = dict(connection.execute(aggregate_counts).all())
    assert {counts.get(uuid, 0) for uuid in filler.acknowledged} == {AGGREGATES_PER_PROVIDER}
    assert {counts.get(uuid, 0) for uuid in filler.rejected} == {0}
    assert {counts.get(uuid, 0) for uuid in filler.unclear} <= {0, AGGREGATES_PER_PROVIDER}
    return f"{summary}, ended by itself {filler.stops} times"


@pytest.mark.parametrize("run_server", [run_postgresql, run_mariadb], ids=["postgresql", "mariadb"])
def test_claims_on_a_full_database_disk_are_consistent(run_server, serve, record_property):
    settings = (
        {"min_wal_size": "32MB", "max_wal_size": "32MB"} if run_server is run_postgresql else {}
    )
    with (
        mount_small_disk(DISK_MEGABYTES) as disk,
        run_server(disk.folder, **settings) as data_server,
    ):
        url = data_server.url() if run_server is run_postgresql else data_server.new_database()
        with open_database_with_schema(url) as database:
            server = serve("--workers", "2", OS_PLACEMENT_DATABASE__CONNECTION=url)
            summary = claim_while_disks_are_full(DiskFiller(disk, data_server, server), database)
    record_property(TRIED_KEY, f"{type(data_server).__name__}: {summary}")
