# SPDX-License-Identifier: Apache-2.0
"""Changes of flavors, their extra specs and their projects.

Each function works within the caller's transaction. Writers first bump the change counter of
flavors. The lock of the counter's row serializes the writers, so that two writers cannot use the
same name. The rules are nova's (compute API reference, "Flavors").
"""

from collections.abc import Mapping
from datetime import datetime

from placement_sched.db.transaction import Connection
from placement_sched.errors import Conflict, Duplicate, NotFound
from placement_sched.model.flavor import Flavor
from placement_sched.store import change_counters
from placement_sched.store.compute import flavors as store


def get(connection: Connection, flavorid: str, project_id: str | None = None) -> Flavor:
    """Return a flavor.

    Raises :class:`NotFound` if it does not exist or ``project_id`` may not see it.
    """
    flavor = store.by_flavorid(connection, flavorid)
    if flavor is None or not (
        project_id is None
        or flavor.is_public
        or store.is_for(connection, _row_id(flavor), project_id)
    ):
        raise NotFound(f"Flavor {flavorid} could not be found.")
    return flavor


def create(connection: Connection, flavor: Flavor, now: datetime) -> Flavor:
    """Store a new flavor.

    Raises :class:`Duplicate` if its id or name is in use.
    """
    change_counters.bump(connection, store.SUBJECT)
    flavorid = str(flavor.flavorid)
    if store.by_flavorid(connection, flavorid) is not None:
        raise Duplicate(f"Flavor with ID {flavorid} already exists.")
    if store.flavorid_of_name(connection, flavor.name) is not None:
        raise Duplicate(f"Flavor with name {flavor.name} already exists.")
    store.add(connection, flavor, now)
    return get(connection, flavorid)


def describe(connection: Connection, flavorid: str, text: str | None, now: datetime) -> Flavor:
    """Change the description of a flavor.

    Raises :class:`NotFound` if the flavor does not exist.
    """
    row_id = _lock(connection, flavorid)
    store.describe(connection, row_id, text, now)
    return get(connection, flavorid)


def delete(connection: Connection, flavorid: str) -> None:
    """Delete a flavor, but not its copies in instances.

    Raises :class:`NotFound` if the flavor does not exist.
    """
    store.remove(connection, _lock(connection, flavorid))


def set_extra_specs(
    connection: Connection, flavorid: str, changes: Mapping[str, str], now: datetime
) -> None:
    """Add or replace extra specs of a flavor, or raise :class:`NotFound`."""
    store.set_extra_specs(connection, _lock(connection, flavorid), changes, now)


def remove_extra_spec(connection: Connection, flavorid: str, key: str) -> None:
    """Delete an extra spec of a flavor, or raise :class:`NotFound`."""
    row_id = _lock(connection, flavorid)
    extra_spec(get(connection, flavorid), key)
    store.remove_extra_spec(connection, row_id, key)


def extra_spec(flavor: Flavor, key: str) -> str:
    """Return the value of an extra spec, or raise :class:`NotFound`."""
    if key not in flavor.extra_specs:
        raise NotFound(f"Flavor {flavor.flavorid} has no extra specs with key {key}.")
    return flavor.extra_specs[key]


def projects(connection: Connection, flavorid: str) -> tuple[str, ...]:
    """Return the projects of a private flavor, or raise :class:`NotFound`."""
    flavor = get(connection, flavorid)
    if flavor.is_public:
        raise NotFound("Access list not available for public flavors.")
    return store.projects_of(connection, _row_id(flavor))


def add_access(
    connection: Connection, flavorid: str, project_id: str, now: datetime, *, public: bool
) -> tuple[str, ...]:
    """Give a project access to a flavor, and return all its projects.

    With ``public``, a public flavor is accepted, without effect. Raises :class:`NotFound`, and
    :class:`Conflict` for a public flavor or a project with access.
    """
    row_id = _lock(connection, flavorid)
    if not public and get(connection, flavorid).is_public:
        raise Conflict("Can not add access to a public flavor.")
    if store.is_for(connection, row_id, project_id):
        raise Conflict(
            f"Flavor access already exists for flavor {flavorid} and project {project_id} "
            "combination."
        )
    store.add_project(connection, row_id, project_id, now)
    return store.projects_of(connection, row_id)


def remove_access(connection: Connection, flavorid: str, project_id: str) -> tuple[str, ...]:
    """Withdraw access of a project, or raise :class:`NotFound`."""
    row_id = _lock(connection, flavorid)
    if not store.remove_project(connection, row_id, project_id):
        raise NotFound(f"Flavor access not found for {flavorid} / {project_id} combination.")
    return store.projects_of(connection, row_id)


def _lock(connection: Connection, flavorid: str) -> int:
    """Lock flavors until the transaction ends, and return the row id of a flavor."""
    change_counters.bump(connection, store.SUBJECT)
    return _row_id(get(connection, flavorid))


def _row_id(flavor: Flavor) -> int:
    return int(flavor.id or 0)
