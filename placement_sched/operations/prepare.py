"""Makes a database fit for use, checks whether it is, and asks a first question of it."""

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
from placement_sched.db import migrate as migrate_module
from placement_sched.db.collations import describe_mismatches, find_mismatches
from placement_sched.db.migrate import (
    current_revision,
    newest_revision,
    refuse_unknown_revision,
    sync_schema,
)
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Invalid, NewerSchema, Unavailable
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from placement_sched.model.clock import Clock, utcnow
from placement_sched.operations.adopt import lacking, refuse_unadopted, sync_standards
from placement_sched.operations.nova_cloud import is_novas, reading_of
from placement_sched.store import row_counts

LOG = log.getLogger(__name__)


def sync(database: Database, clock: Clock) -> None:
    """Create or upgrade the schema and synchronise standard traits and resource classes.

    Raises :class:`NotAdopted` for a database of OpenStack placement that is to be adopted first.
    """

    def whole() -> None:
        refuse_unadopted(database)
        sync_schema(database)
        database.schema_is_ours()
        sync_standards(database, clock)

    # Other servers may do the same at this moment through other nodes of a cluster.
    database.retried(whole)


def refuse_other_revision(database: Database) -> None:
    """Raise :class:`Unavailable` where the schema is not that of this release.

    Raises :class:`NotAdopted` for a database of OpenStack placement that is to be adopted first.
    """
    revision, wanted = current_revision(database), newest_revision()
    if revision != wanted:
        refuse_unadopted(database)
        refuse_unknown_revision(revision)
        raise Unavailable(
            f"the database schema is at revision {revision or 'none'}, this release requires "
            f"{wanted}; run placement-sched db sync"
        )
    database.schema_is_ours()


def may_sync(settings: Settings, database: Database) -> bool:
    """Return whether a server prepares the database itself when it starts."""
    # SQLite is embedded: its file is this service's own, and no other service prepares it.
    embedded = database.url.get_backend_name() == "sqlite"
    return embedded or bool(settings.placement_database.sync_on_startup)


#: Threads that may be busy with it, one preparing and the others waiting for that one: fewer than a
#: server has, so that some are left to answer health checks.
PLACES = 3
#: Seconds that a thread waits for the one that prepares, which is long for a database that answers.
_PATIENCE = 3.0
#: So many objects more than were freed start a collection of the young ones (Python: 700).
_YOUNG = 10_000
_BUSY = "the database is being prepared; try again"


class Preparation:
    """Prepares the database once per process, at the first moment at which it answers.

    Called before every request, it costs one attribute read once done. While the database is
    absent each call tries again, so that the service recovers by itself; while it is locked, few
    wait for it. All of ``upkeep`` is called every time, once the database is fit.

    ``accepted`` is shared by the workers of a server, and true once one of them has found the
    schema to be that of this release. The server then goes on with that of a newer one (a rolling
    upgrade), and so does a worker that replaces another.
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
        self._places, self._lock = Semaphore(PLACES), Lock()
        self._done = False

    def __call__(self) -> None:
        """Return once the database is fit; raise :class:`Unavailable` while it is not."""
        if not self._done:
            if not self._places.acquire(blocking=False):
                raise Unavailable(_BUSY)
            try:
                self._in_turn()
            finally:
                self._places.release()
        for task in self._upkeep:
            task()

    def keep_up(self) -> None:
        """Do the upkeep between requests; nothing before the database is prepared."""
        if self._done:
            for task in self._upkeep:
                task()

    def _in_turn(self) -> None:
        if not self._lock.acquire(timeout=_PATIENCE):
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
                refuse_other_revision(self._database)
                sync_standards(self._database, self._clock)
        except NewerSchema as failure:
            if not self._accepted.value:
                raise
            LOG.warning(
                "this worker, like its server, goes on with the schema of a newer release: %s",
                failure.detail,
            )
            self._database.schema_is_ours()
        self._accepted.value = True


#: What most requests ask for, and as much of it as nova asks for at once.
_QUESTION = CandidatesQuery(
    groups=(RequestGroup(resources=(("VCPU", 1), ("MEMORY_MB", 1), ("DISK_GB", 1))),), limit=1000
)

_NEWEST = SummaryFields(classes=None, traits=True, tree=True)


def rehearse(
    database: Database,
    sources: Callable[[Connection], ProviderSource],
    summaries: Summaries,
    settings: Settings,
    random: Random,
) -> None:
    """Ask for allocation candidates once, so that the first request is answered as fast as others.

    It compiles the statements, opens a connection and reads the first hosts' summaries. A question
    that is refused has prepared what it could. Raises :class:`Unavailable` where the database does
    not answer.
    """
    with database.read() as connection, suppress(Invalid):
        source = sources(connection)
        search = prepare(source, _QUESTION)
        candidates = find(source, search, settings, random)
        providers = candidates.providers if candidates.trees is None else candidates.trees
        summaries.render(source, providers, search.names.class_names, _NEWEST)


#: Where oslo.policy looks when there is no file of its default name.
_YAML_POLICY, _JSON_POLICY = "policy.yaml", "policy.json"


_UNKNOWN = "Not checked, because the schema is not up to date."
#: What was read of nova's cells so many seconds ago is old, if not earlier.
_LATE = 60


class CheckCode(IntEnum):
    """How a check ended; the worst of all is the command's exit status, as placement-status's."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class Result:
    """What a check said: how it ended and, unless well, what to do."""

    check: str
    code: CheckCode = CheckCode.SUCCESS
    details: str | None = None


def check_upgrade(
    database: Database, settings: Settings, clock: Clock = utcnow
) -> tuple[Result, ...]:
    """Return what each check says. Raises :class:`Unavailable` for a database without answer."""
    schema = _schema(database)
    read = [_reading(database, schema, settings, clock)] if is_novas(settings) else []
    checks = (*_data(database, schema), *_collations(database), *read)
    return (schema, *checks, _policy_file(settings))


def worst(results: Iterable[Result]) -> CheckCode:
    """Return the gravest code of the results."""
    return max((result.code for result in results), default=CheckCode.SUCCESS)


def _schema(database: Database) -> Result:
    name = "Database Schema"
    with database.read() as connection:
        contents = migrate_module.look(connection)
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


def _data(database: Database, schema: Result) -> Sequence[Result]:
    """Return the results of the checks of rows; without a schema none can be made."""
    checks = {
        "Missing Root Provider IDs": CheckCode.FAILURE,
        "Incomplete Consumers": CheckCode.WARNING,
        "Standard Traits and Resource Classes": CheckCode.WARNING,
    }
    if schema.code is CheckCode.FAILURE:
        return [Result(name, CheckCode.FAILURE, _UNKNOWN) for name in checks]
    with database.read() as connection:
        roots = row_counts.without_root(connection)
        consumers = row_counts.incomplete_consumers(connection)
        missing = lacking(connection)
    names = [*missing.resource_classes, *missing.traits]
    migrate = 'Run the "placement-manage db online_data_migrations" command of OpenStack placement.'
    details = (
        roots
        and f"{roots} resource providers have no root provider id, so nothing is allocated from "
        f"them. {migrate}",
        consumers
        and f"{consumers} consumers hold allocations and have no record, so they are missing in "
        f"the usage of projects. {migrate}",
        names
        and f"{len(names)} standard traits or resource classes are not in the database, such as "
        f"{names[0]}. The server adds them when it starts; "
        '"placement-sched db sync" does so now.',
    )
    return [
        Result(name, code, str(details_text)) if details_text else Result(name)
        for (name, code), details_text in zip(checks.items(), details, strict=True)
    ]


def _collations(database: Database) -> list[Result]:
    """Return the result for the collations of MariaDB; nothing for other databases."""
    if database.url.get_backend_name() != "mysql":
        return []
    with database.read() as connection:
        mismatches = find_mismatches(connection)
    if not mismatches:
        return [Result("Table Collations")]
    is_refused = any(mismatch.is_refused for mismatch in mismatches)
    code = CheckCode.FAILURE if is_refused else CheckCode.WARNING
    return [Result("Table Collations", code, describe_mismatches(mismatches))]


def _reading(database: Database, schema: Result, settings: Settings, clock: Clock) -> Result:
    name = "Reading of Nova"
    if schema.code is CheckCode.FAILURE:
        return Result(name, CheckCode.FAILURE, _UNKNOWN)
    with database.read() as connection:
        reading = reading_of(connection, clock())
    if reading.oldest is None:
        problem = 'No cell of nova was read yet. Run the "placement-sched adopt nova" command.'
    elif reading.away:
        problem = f"The databases of these cells do not answer: {', '.join(reading.away)}."
    elif reading.oldest > max(_LATE, 3 * settings.scheduler.nova_sync_interval):
        problem = (
            f"A cell of nova was last read {reading.oldest} seconds ago. See whether "
            'placement-sched nova-scheduler runs, or run the "placement-sched nova sync" command.'
        )
    else:
        return Result(name)
    return Result(name, CheckCode.WARNING, problem)


def _policy_file(settings: Settings) -> Result:
    name = "Policy File JSON to YAML Migration"
    conf = settings.conf
    # oslo.policy declares its options only when it is asked for a decision.
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


def spare_collector() -> None:
    """Let the garbage collector of a process that serves walk no more what is loaded by now.

    It stays for good; and an answer of thousands of rows is not taken for garbage every 700
    objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
