"""The follower of nova's databases, for commands that run one."""

import argparse
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict

from placement_sched.cli.database import open_database, refuse_absent_file
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.nova.databases.connections import NovaAway, refuse_unset_databases
from placement_sched.nova.sync.findings import Findings
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.prepare import Preparation, refuse_other_revision
from placement_sched.scheduler.plugins import read_settings


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


_HEADINGS = ("", "read", "new", "changed", "gone")
_SIGNS = {"new": "+", "changed": "~", "gone": "-"}


def document_of(findings: Findings) -> Json:
    """Return the findings as JSON has them."""
    return {
        "read": {noun: asdict(count) for noun, count in findings.counts.items()},
        "differing": findings.differing,
        "away": list(findings.away),
        "misfits": [{"place": one.place, "reason": one.reason} for one in findings.misfits],
        "differences": [
            {"noun": one.noun, "change": one.kind, "name": one.name, "fields": list(one.fields)}
            for one in findings.unlike
        ],
        "seconds": round(findings.seconds, 3),
    }


def counts_of(findings: Findings) -> Iterator[str]:
    """Yield a table of how much was read of each noun, and how much of it differs."""
    rows = [
        (noun, *map(str, (count.read, count.new, count.changed, count.gone)))
        for noun, count in findings.counts.items()
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for first, *numbers in (_HEADINGS, *rows):
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True)]
        yield "  ".join(cells)


def differences_of(findings: Findings) -> Iterator[str]:
    """Yield each difference, after a comparison."""
    for one in findings.unlike:
        fields = f": {', '.join(one.fields)}" if one.fields else ""
        yield f"{_SIGNS[one.kind]} {_singular(one.noun)} {one.name}{fields}"


def faults_of(findings: Findings) -> Iterator[str]:
    """Yield the cells that did not answer, and what cannot be recorded as nova has it."""
    for cell in findings.away:
        yield f"{cell}: its database does not answer; what was recorded of it stays as it was"
    yield from map(str, findings.misfits)


def counted(number: int, nouns: str) -> str:
    """Return a number with a noun given in the plural."""
    return f"{number} {nouns if number != 1 else _singular(nouns)}"


def _singular(nouns: str) -> str:
    return nouns.removesuffix("s")
