"""Lays a decoded fleet file over the cloud that there is: what was, and what is to be."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.connection import Connection
from placement_sched.model.flavor import Flavor
from placement_sched.model.shape import Misfit, Shape, list_of, record
from placement_sched.operations import reports
from placement_sched.operations.fleet import entries
from placement_sched.operations.fleet.entries import anything, located
from placement_sched.operations.fleet.reading import read
from placement_sched.operations.fleet.state import State
from placement_sched.operations.fleet.wanted import Draft, Terms
from placement_sched.operations.fleet.wanted_hosts import (
    HOST,
    lay_hosts,
    lay_providers,
    lay_services,
)
from placement_sched.operations.fleet.wanted_instances import Instances, check_holdings
from placement_sched.operations.fleet.wanted_things import (
    check_aggregate,
    lay_aggregate,
    lay_flavor,
    lay_image,
    lay_server_group,
)
from placement_sched.operations.fleet.written import symbol
from placement_sched.scheduler.groups import amounts_of
from placement_sched.scheduler.policies.registry import policies_for
from placement_sched.store import flavors

Json = dict[str, Any]

#: The form of file that is read and written.
VERSION = 1

_SECTIONS: Mapping[str, Shape[Any]] = {
    "flavors": entries.FLAVOR,
    "images": entries.IMAGE,
    "server_groups": entries.SERVER_GROUP,
    "aggregates": entries.AGGREGATE,
    "hosts": HOST,
    "services": entries.SERVICE,
    "providers": entries.PROVIDER,
    "instances": entries.INSTANCE,
    "allocations": entries.CONSUMER,
}
_NAMES = ("resource_classes", "traits")
#: What lays the entries of a section, in the order in which that is done.
_LAID_BEFORE: tuple[tuple[str, Callable[[Draft, Json], None]], ...] = (
    ("flavors", lay_flavor),
    ("images", lay_image),
    ("server_groups", lay_server_group),
    ("aggregates", lay_aggregate),
    ("hosts", lay_hosts),
    ("services", lay_services),
    ("providers", lay_providers),
    ("aggregates", check_aggregate),
)
_FILE = record(
    {
        "version": anything,
        **dict.fromkeys(_NAMES, list_of(symbol)),
        **{name: list_of(shape) for name, shape in _SECTIONS.items()},
        # What is there to be anchored, and used elsewhere by an alias.
        "templates": anything,
    }
)


def terms_of(settings: Settings, now: datetime) -> Terms:
    """Return what holds where a file is silent."""
    options = settings.placement
    return Terms(
        defaults=reports.defaults(settings, now),
        nobody=(options.incomplete_consumer_project_id, options.incomplete_consumer_user_id),
        asked=_asked,
        policies=policies_for(settings),
    )


def laid(connection: Connection, document: Any, terms: Terms) -> tuple[State, State]:
    """Return what there is, and what a document makes of it; raises :class:`Misfit`."""
    sections = _FILE({} if document is None else document)
    if sections.get("version", VERSION) != VERSION:
        raise Misfit(f"this form of file is not known, {VERSION} is", "version")
    before = read(connection, terms.nobody)
    draft = Draft(before, terms)
    with located("resource_classes"):
        draft.know_classes(sections.get("resource_classes", ()))
    with located("traits"):
        draft.know_traits(sections.get("traits", ()))
    for name, lay in _LAID_BEFORE:
        for index, entry in enumerate(sections.get(name, ())):
            draft.entry = (name, index)
            with located(*draft.entry):
                lay(draft, entry)
    last = Instances(draft, flavors.ids_by_flavorid(connection))
    for name, lay_last in (("instances", last.lay), ("allocations", last.lay_allocations)):
        for index, entry in enumerate(sections.get(name, ())):
            draft.entry = (name, index)
            with located(*draft.entry):
                lay_last(entry)
    check_holdings(draft)
    return before, draft.settled()


def _asked(flavor: Flavor) -> Mapping[str, int]:
    return dict(amounts_of(flavor, boot_from_volume=False))
