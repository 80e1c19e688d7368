# SPDX-License-Identifier: Apache-2.0
"""Replacement of the cloud in a database."""

from sqlalchemy import Connection, delete

from placement_sched.db.sql import insert_missing
from placement_sched.db.tables import PLACEMENT_TABLES, resource_classes, resource_providers, traits
from placement_sched.db.transaction import Database
from tests.candidates.strategies import TRAIT_NAMES
from tests.support.clouds import Cloud, load_cloud


def replace_cloud(database: Database, cloud: Cloud) -> None:
    """Replace all providers, and create every trait that a random query can name."""
    database.write(_delete_providers)
    load_cloud(database, cloud)


def _delete_providers(connection: Connection) -> None:
    connection.execute(
        resource_providers.update().values(root_provider_id=None, parent_provider_id=None)
    )
    for table in reversed(PLACEMENT_TABLES):
        if table not in {traits, resource_classes}:
            connection.execute(delete(table))
    insert_missing(connection, traits, [{"name": name} for name in TRAIT_NAMES])
