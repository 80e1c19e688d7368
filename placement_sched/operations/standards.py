"""Keeps the standard traits and resource classes of os-traits and os-resource-classes in step."""

import os_resource_classes
import os_traits

from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.model.clock import Clock
from placement_sched.store import resource_classes, traits


def sync_standards(database: Database, clock: Clock) -> None:
    """Add the standard traits and resource classes that the database lacks; never remove any.

    One read where nothing is missing, so that every start may call it.
    """
    with database.read() as connection:
        lacking_traits = sorted(set(os_traits.get_traits()) - traits.all_names(connection))
        lacking_classes = [
            name
            for name in os_resource_classes.STANDARDS
            if name not in resource_classes.all_names(connection)
        ]
    if not lacking_traits and not lacking_classes:
        return

    def add(connection: Connection) -> None:
        traits.add_missing(connection, lacking_traits, clock())
        resource_classes.add_standard(connection, lacking_classes, clock())

    database.write(add)
