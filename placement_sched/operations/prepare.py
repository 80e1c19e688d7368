# SPDX-License-Identifier: Apache-2.0
"""Preparation of the database at start, with upgrade checks and warm-up."""

import ctypes
import gc
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from random import Random
from threading import Lock, Semaphore

import orjson
from oslo_log import log
from oslo_policy import opts as policy_options

from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.search import find, prepare
from placement_sched.candidates.summaries import Summaries, SummaryFields
from placement_sched.config.settings import Settings
from placement_sched.db import migrate
from placement_sched.db.collations import describe_mismatches, find_mismatches
from placement_sched.db.migrate import (
    check_revision,
    current_revision,
    newest_revision,
    sync_schema,
)
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Invalid, NewerSchema, Unavailable
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from placement_sched.model.clock import Clock, utcnow
from placement_sched.operations.adopt import check_adopted, missing_standards, sync_standards
from placement_sched.operations.nova_cloud import is_read_from_nova, reading_of
from placement_sched.store import row_counts

LOG = log.getLogger(__name__)
#: Maximum number of threads that prepare or wait for it. A server has more threads, so that others
#: can answer health checks.
PLACES = 3
#: Seconds that a thread waits for another thread to prepare the database.
_MAX_WAIT = 3.0
#: Net allocations of objects that start a garbage collection (Python's default: 700).
_GC_THRESHOLD = 10_000
_BUSY = "the database is being prepared; try again"
#: A typical query, with the limit of nova.
_WARM_UP_QUERY = CandidatesQuery(
    groups=(RequestGroup(resources=(("VCPU", 1), ("MEMORY_MB", 1), ("DISK_GB", 1))),), limit=1000
)
_WARM_UP_FIELDS = SummaryFields(classes=None, traits=True, tree=True)
#: The default file of oslo.policy, and its fallback.
_YAML_POLICY, _JSON_POLICY = "policy.yaml", "policy.json"
_NOT_CHECKED = "Not checked, because the schema is not up to date."
#: Minimum age, in seconds, at which records of nova's cells are outdated.
_MIN_OUTDATED_AGE = 60


def sync(database: Database, clock: Clock) -> None:
    """Create or upgrade the schema and its standard names.

    Raises :class:`NotAdopted` if a database of OpenStack placement must be adopted first.
    """

    def run() -> None:
        check_adopted(database)
        sync_schema(database)
        database.enable_commit_marks()
        sync_standards(database, clock)

    # Other servers may do the same at the same time on other nodes of a cluster.
    database.retry(run)


def check_schema_revision(database: Database) -> None:
    """Raise :class:`Unavailable` if the schema belongs to another release.

    Raises :class:`NotAdopted` if a database of OpenStack placement must be adopted first.
    """
    revision, wanted = current_revision(database), newest_revision()
    if revision != wanted:
        check_adopted(database)
        check_revision(revision)
        raise Unavailable(
            f"the database schema is at revision {revision or 'none'}, this release requires "
            f"{wanted}; run placement-sched db sync"
        )
    database.enable_commit_marks()


def may_sync(settings: Settings, database: Database) -> bool:
    """Return whether a server prepares the database itself when it starts."""
    # The file of the embedded SQLite belongs to this service, and no other service prepares it.
    embedded = database.url.get_backend_name() == "sqlite"
    return embedded or bool(settings.placement_database.sync_on_startup)


class Preparation:
    """Task before every request that prepares the database once per process.

    After the first success, a call only reads an attribute. While the database is unavailable, each
    call tries again. While it is locked, at most :data:`PLACES` threads wait for it. After the
    preparation, each call runs all tasks of ``upkeep``.

    ``accepted`` is shared by the workers of a server, and becomes true when a worker finds the
    schema of this release. From then on, a server and its replaced workers also accept the schema
    of a newer release (rolling upgrade).
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Clock,
        upkeep: Sequence[Callable[[], None]] = (),
        accepted: ctypes.c_bool | None = None,
    ) -> None:
        self._accepted = ctypes.c_bool(False) if accepted is None else accepted
        self._may_sync = may_sync(settings, database)
        self._database, self._clock, self._upkeep = database, clock, upkeep
        self._slots, self._lock = Semaphore(PLACES), Lock()
        self._done = False

    def __call__(self) -> None:
        """Prepare the database, or raise :class:`Unavailable`."""
        if not self._done:
            if not self._slots.acquire(blocking=False):
                raise Unavailable(_BUSY)
            try:
                self._prepare_once()
            finally:
                self._slots.release()
        for task in self._upkeep:
            task()

    def run_refresh(self) -> None:
        """Run the upkeep tasks between requests if the database is prepared."""
        if self._done:
            for task in self._upkeep:
                task()

    def _prepare_once(self) -> None:
        if not self._lock.acquire(timeout=_MAX_WAIT):
            raise Unavailable(_BUSY)
        try:
            if not self._done:
                self._prepare()
                self._done = True
        finally:
            self._lock.release()

    def _prepare(self) -> None:
        try:
            if self._may_sync:
                sync(self._database, self._clock)
            else:
                check_schema_revision(self._database)
                sync_standards(self._database, self._clock)
        except NewerSchema as failure:
            if not self._accepted.value:
                raise
            LOG.warning(
                "this worker, like its server, goes on with the schema of a newer release: %s",
                failure.detail,
            )
            self._database.enable_commit_marks()
        self._accepted.value = True


def warm_up(
    database: Database,
    sources: Callable[[Connection], ProviderSource],
    summaries: Summaries,
    settings: Settings,
    random: Random,
) -> None:
    """Find candidates once, so that the first request is not slow.

    The search compiles the statements, opens a connection and reads provider summaries. A rejected
    query is ignored. Raises :class:`Unavailable` if the database is unavailable.
    """
    with database.read() as connection, suppress(Invalid):
        source = sources(connection)
        search = prepare(source, _WARM_UP_QUERY)
        candidates = find(source, search, settings, random)
        providers = candidates.providers if candidates.trees is None else candidates.trees
        summaries.render(source, providers, search.names.class_names, _WARM_UP_FIELDS)


class CheckCode(IntEnum):
    """The code of a check, as in placement-status."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check, with details of a problem and its fix."""

    check: str
    code: CheckCode = CheckCode.SUCCESS
    details: str | None = None


def check_upgrade(
    database: Database, settings: Settings, clock: Clock = utcnow
) -> tuple[Result, ...]:
    """Run all checks, or raise :class:`Unavailable` without a database."""
    schema = _check_schema(database)
    read = (
        [_check_reading(database, schema, settings, clock)] if is_read_from_nova(settings) else []
    )
    checks = (*_check_rows(database, schema), *_check_collations(database), *read)
    return (schema, *checks, _check_policy_file(settings))


def highest_code(results: Iterable[Result]) -> CheckCode:
    """Return the highest code of the results."""
    return max((result.code for result in results), default=CheckCode.SUCCESS)


def _check_schema(database: Database) -> Result:
    name = "Database Schema"
    with database.read() as connection:
        contents = migrate.inspect_schema(connection)
    own, wanted = current_revision(database), newest_revision()
    if contents.complete and own == wanted:
        return Result(name)
    problem = (
        f"The schema is at revision {own or 'none'}, this release requires {wanted}. "
        'Run the "placement-sched db sync" command.'
    )
    if contents.foreign or (contents.revisions and contents.tables and not contents.complete):
        problem = (
            "The database belongs to OpenStack placement and is not adopted. "
            'Run the "placement-sched db adopt" command.'
        )
    return Result(name, CheckCode.FAILURE, problem)


def _check_rows(database: Database, schema: Result) -> Sequence[Result]:
    checks = {
        "Missing Root Provider IDs": CheckCode.FAILURE,
        "Incomplete Consumers": CheckCode.WARNING,
        "Standard Traits and Resource Classes": CheckCode.WARNING,
    }
    if schema.code is CheckCode.FAILURE:
        return [Result(name, CheckCode.FAILURE, _NOT_CHECKED) for name in checks]
    with database.read() as connection:
        roots = row_counts.without_root(connection)
        consumers = row_counts.incomplete_consumers(connection)
        missing = missing_standards(connection)
    names = [*missing.resource_classes, *missing.traits]
    fix = 'Run the "placement-manage db online_data_migrations" command of OpenStack placement.'
    details = (
        roots
        and f"{roots} resource providers have no root provider id, so nothing is allocated from "
        f"them. {fix}",
        consumers
        and f"{consumers} consumers hold allocations and have no record, so they are missing in "
        f"the usage of projects. {fix}",
        names
        and f"{len(names)} standard traits or resource classes are not in the database, such as "
        f"{names[0]}. The server adds them when it starts; "
        '"placement-sched db sync" does so now.',
    )
    return [
        Result(name, code, str(text)) if text else Result(name)
        for (name, code), text in zip(checks.items(), details, strict=True)
    ]


def _check_collations(database: Database) -> list[Result]:
    if database.url.get_backend_name() != "mysql":
        return []
    with database.read() as connection:
        mismatches = find_mismatches(connection)
    if not mismatches:
        return [Result("Table Collations")]
    is_refused = any(mismatch.is_refused for mismatch in mismatches)
    code = CheckCode.FAILURE if is_refused else CheckCode.WARNING
    return [Result("Table Collations", code, describe_mismatches(mismatches))]


def _check_reading(database: Database, schema: Result, settings: Settings, clock: Clock) -> Result:
    name = "Reading of Nova"
    if schema.code is CheckCode.FAILURE:
        return Result(name, CheckCode.FAILURE, _NOT_CHECKED)
    with database.read() as connection:
        reading = reading_of(connection, clock())
    if reading.oldest is None:
        problem = 'No cell of nova was read yet. Run the "placement-sched adopt nova" command.'
    elif reading.away:
        problem = f"The databases of these cells are unavailable: {', '.join(reading.away)}."
    elif reading.oldest > max(_MIN_OUTDATED_AGE, 3 * settings.scheduler.nova_sync_interval):
        problem = (
            f"A cell of nova was last read {reading.oldest} seconds ago. Check that "
            'placement-sched nova-scheduler runs, or run the "placement-sched nova sync" command.'
        )
    else:
        return Result(name)
    return Result(name, CheckCode.WARNING, problem)


def _check_policy_file(settings: Settings) -> Result:
    name = "Policy File JSON to YAML Migration"
    conf = settings.conf
    # oslo.policy registers its options only when it enforces a rule.
    for group, options in policy_options.list_opts():
        conf.register_opts(options, group)
    written = conf.oslo_policy.policy_file
    path = conf.find_file(written)
    if path is None and written == _YAML_POLICY:
        path = conf.find_file(_JSON_POLICY)
    if path is None:
        return Result(name)
    try:
        orjson.loads(Path(path).read_bytes())
    except ValueError:
        return Result(name)
    return Result(
        name,
        CheckCode.FAILURE,
        f"The policy file {path} is written in JSON, which oslo.policy has deprecated. "
        'The "oslopolicy-convert-json-to-yaml" command converts it to YAML.',
    )


def freeze_loaded_objects() -> None:
    """Exclude loaded objects from garbage collection, and collect less often.

    Loaded modules are never collected. A response of thousands of rows should not start many
    collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
