"""What may be done with flavors, their extra specs and the projects that private ones are for.

Each function works within the caller's transaction, and those that write bump the flavors' change
counter first: that row's lock makes writers take turns, so two of them cannot both find a name
free. The rules are nova's (compute API reference, "Flavors").
"""

from collections.abc import Mapping
from datetime import datetime

from placement_sched.db.transaction import Connection
from placement_sched.errors import Conflict, Duplicate, Invalid, NotFound
from placement_sched.limits import MAX_EXTRA_SPECS, MAX_FLAVOR_PROJECTS
from placement_sched.model.flavor import Flavor
from placement_sched.store import change_counters
from placement_sched.store.compute import flavors as store


def get(connection: Connection, flavorid: str, project_id: str | None = None) -> Flavor:
    """Return a flavor; raises :class:`NotFound`, also where ``project_id`` may not see it."""
    flavor = store.by_flavorid(connection, flavorid)
    if flavor is None or not (
        project_id is None
        or flavor.is_public
        or store.is_for(connection, _number(flavor), project_id)
    ):
        raise NotFound(f"Flavor {flavorid} could not be found.")
    return flavor


def create(connection: Connection, flavor: Flavor, now: datetime) -> Flavor:
    """Keep a new flavor and return it as kept; raises :class:`Duplicate` for its id or name."""
    change_counters.bump(connection, store.SUBJECT)
    flavorid = str(flavor.flavorid)
    if store.by_flavorid(connection, flavorid) is not None:
        raise Duplicate(f"Flavor with ID {flavorid} already exists.")
    if store.flavorid_of_name(connection, flavor.name) is not None:
        raise Duplicate(f"Flavor with name {flavor.name} already exists.")
    store.add(connection, flavor, now)
    return get(connection, flavorid)


def describe(connection: Connection, flavorid: str, text: str | None, now: datetime) -> Flavor:
    """Change the description of a flavor, and return it; raises :class:`NotFound`."""
    number = _locked(connection, flavorid)
    store.describe(connection, number, text, now)
    return get(connection, flavorid)


def delete(connection: Connection, flavorid: str) -> None:
    """Delete a flavor; instances keep what they were made of. Raises :class:`NotFound`."""
    store.remove(connection, _locked(connection, flavorid))


def set_extra_specs(
    connection: Connection, flavorid: str, changes: Mapping[str, str], now: datetime
) -> None:
    """Set extra specs of a flavor, those not named stay.

    Raises :class:`NotFound`, and :class:`Invalid` for more than a request for instances may have.
    """
    number = _locked(connection, flavorid)
    existing = get(connection, flavorid).extra_specs
    has = len(existing.keys() | changes.keys())
    # A flavor from before there was a limit may have more, and keeps them.
    if has > max(MAX_EXTRA_SPECS, len(existing)):
        raise Invalid(
            f"Flavor {flavorid} would have {has} extra specs, at most {MAX_EXTRA_SPECS} allowed."
        )
    store.set_extra_specs(connection, number, changes, now)


def remove_extra_spec(connection: Connection, flavorid: str, key: str) -> None:
    """Delete one extra spec of a flavor; raises :class:`NotFound` where either is not there."""
    number = _locked(connection, flavorid)
    extra_spec(get(connection, flavorid), key)
    store.remove_extra_spec(connection, number, key)


def extra_spec(flavor: Flavor, key: str) -> str:
    """Return the value of an extra spec; raises :class:`NotFound`."""
    if key not in flavor.extra_specs:
        raise NotFound(f"Flavor {flavor.flavorid} has no extra specs with key {key}.")
    return flavor.extra_specs[key]


def projects(connection: Connection, flavorid: str) -> tuple[str, ...]:
    """Return the projects that a private flavor is for; raises :class:`NotFound`."""
    flavor = get(connection, flavorid)
    if flavor.is_public:
        raise NotFound("Access list not available for public flavors.")
    return store.projects_of(connection, _number(flavor))


def let_in(
    connection: Connection, flavorid: str, project_id: str, now: datetime, *, public: bool
) -> tuple[str, ...]:
    """Put a project among those a flavor is for, and return them.

    With ``public``, a public flavor accepts them as well, without effect. Raises
    :class:`NotFound`, :class:`Conflict` for a project that is there or a public flavor, and
    :class:`Invalid` for too many.
    """
    number = _locked(connection, flavorid)
    if not public and get(connection, flavorid).is_public:
        raise Conflict("Can not add access to a public flavor.")
    if store.is_for(connection, number, project_id):
        raise Conflict(
            f"Flavor access already exists for flavor {flavorid} and project {project_id} "
            "combination."
        )
    has = len(projects_before := store.projects_of(connection, number)) + 1
    if has > MAX_FLAVOR_PROJECTS:
        raise Invalid(
            f"Flavor {flavorid} would be for {has} projects, at most {MAX_FLAVOR_PROJECTS} allowed."
        )
    store.add_project(connection, number, project_id, now)
    return tuple(sorted((*projects_before, project_id)))


def shut_out(connection: Connection, flavorid: str, project_id: str) -> tuple[str, ...]:
    """Take a project from those a flavor is for, and return the rest; raises :class:`NotFound`."""
    number = _locked(connection, flavorid)
    if not store.remove_project(connection, number, project_id):
        raise NotFound(f"Flavor access not found for {flavorid} / {project_id} combination.")
    return store.projects_of(connection, number)


def _locked(connection: Connection, flavorid: str) -> int:
    """Return the number of a flavor that no other writer changes until the transaction ends."""
    change_counters.bump(connection, store.SUBJECT)
    return _number(get(connection, flavorid))


def _number(flavor: Flavor) -> int:
    return int(flavor.id or 0)
