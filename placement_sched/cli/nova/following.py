"""The follower of nova's databases, for commands that run one."""

import argparse
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager

from placement_sched.cli.database import open_database, refuse_absent_file
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.nova.databases.connections import NovaAway, refuse_unset_databases
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.prepare import Preparation, refuse_other_revision
from placement_sched.scheduler.plugins import read_settings
from placement_sched.settings import Settings


@contextmanager
def following(
    arguments: argparse.Namespace, *, there: bool = False
) -> Iterator[tuple[Settings, Database, Follower]]:
    """Give the settings, the configured database, fit for use, and a follower of its nova.

    A database that must be ``there`` is not made fit: nothing is written to it.

    Raises :class:`ConfigurationError` where a database is not configured, or cannot be as it is,
    :class:`NotAdopted` for a database of OpenStack placement that is to be adopted first, and
    :class:`Unavailable` where a database does not answer or has another schema, or must be
    ``there`` and is not.
    """
    settings = read_settings(arguments.config_file)
    refuse_unset_databases(settings)
    with open_database(settings) as database:
        if there:
            refuse_absent_file(database)
            refuse_other_revision(database)
        else:
            Preparation(database, settings, utcnow)()
        with closing(Follower(database, settings, utcnow)) as follower, _without_log():
            try:
                yield settings, database, follower
            except NovaAway as failure:
                what = f"nova's API database does not answer: {failure.detail}"
                raise Unavailable(what) from None


@contextmanager
def _without_log() -> Iterator[None]:
    """Keep from stderr what the follower logs: the command reports it itself."""
    logger, nowhere = logging.getLogger("placement_sched.nova"), logging.NullHandler()
    propagated = logger.propagate
    logger.addHandler(nowhere)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(nowhere)
        logger.propagate = propagated
