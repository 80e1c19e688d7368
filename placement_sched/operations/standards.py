"""Keeps the standard traits and resource classes of os-traits and os-resource-classes in step."""

from dataclasses import dataclass

import os_resource_classes
import os_traits

from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock
from placement_sched.store import resource_classes, traits


@dataclass(frozen=True, slots=True)
class Standards:
    """Names of standard traits and standard resource classes."""

    traits: tuple[str, ...]
    resource_classes: tuple[str, ...]


def lacking(connection: Connection) -> Standards:
    """Return the standard names that the database lacks, classes in the order of their ids."""
    known = resource_classes.all_names(connection)
    return Standards(
        traits=tuple(sorted(set(os_traits.get_traits()) - traits.all_names(connection))),
        resource_classes=tuple(name for name in os_resource_classes.STANDARDS if name not in known),
    )


def sync_standards(database: Database, clock: Clock) -> Standards:
    """Add the standard names that the database lacks, and return them; never remove any.

    One read of each where nothing is missing, so that every start may call it.
    """
    with database.read() as connection:
        missing = lacking(connection)
    if not missing.traits and not missing.resource_classes:
        return missing

    def add(connection: Connection) -> None:
        traits.add_missing(connection, missing.traits, clock())
        resource_classes.add_standard(connection, missing.resource_classes, clock())

    database.write(add)
    return missing
