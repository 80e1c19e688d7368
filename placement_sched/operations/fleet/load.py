"""Loads a fleet file into a database, wholly or not at all, and writes one from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.connection import Connection
from placement_sched.db.transaction import Database
from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.clock import Clock
from placement_sched.model.flavor import Flavor
from placement_sched.model.shape import Misfit, Shape, list_of, record
from placement_sched.operations import reports
from placement_sched.operations.fleet import entries
from placement_sched.operations.fleet.applying import Told, apply
from placement_sched.operations.fleet.changes import Change, changes
from placement_sched.operations.fleet.entries import anything, located
from placement_sched.operations.fleet.marked import Marked
from placement_sched.operations.fleet.reading import read
from placement_sched.operations.fleet.showing import show, text_of
from placement_sched.operations.fleet.state import State
from placement_sched.operations.fleet.wanted import Draft, Terms
from placement_sched.operations.fleet.wanted_hosts import (
    HOST,
    lay_hosts,
    lay_providers,
    lay_services,
)
from placement_sched.operations.fleet.wanted_instances import Instances
from placement_sched.operations.fleet.wanted_things import (
    check_aggregate,
    lay_aggregate,
    lay_flavor,
    lay_image,
)
from placement_sched.scheduler.question import resources_from_flavor
from placement_sched.store import change_counters, flavors

Json = dict[str, Any]

#: The form of file that is read and written.
VERSION = 1
#: The change counter whose row lets two loads take turns.
SUBJECT = "fleet"
#: How many steps a load is told of.
STEPS = 9
#: How often a load starts again where others changed something of it meanwhile.
_ATTEMPTS = 10

_SECTIONS: Mapping[str, Shape[Any]] = {
    "flavors": entries.FLAVOR,
    "images": entries.IMAGE,
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
    ("aggregates", lay_aggregate),
    ("hosts", lay_hosts),
    ("services", lay_services),
    ("providers", lay_providers),
    ("aggregates", check_aggregate),
)
_FILE = record(
    {
        "version": anything,
        **dict.fromkeys(_NAMES, list_of(entries.symbol)),
        **{name: list_of(shape) for name, shape in _SECTIONS.items()},
        # What is there to be anchored, and used elsewhere by an alias.
        "templates": anything,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Loads and dumps a database's cloud, by the settings' ratios where a file tells none."""

    database: Database
    settings: Settings
    clock: Clock

    def load(self, text: str, name: str, *, dry_run: bool, told: Told) -> tuple[Change, ...]:
        """Make of the cloud what a file (``text``, called ``name``) says; return what changes.

        One transaction: all of it, or (by an error) nothing. Raises :class:`Invalid` with line and
        column for a file that cannot be, and :class:`Conflict` where the cloud is against it.
        """
        told("the file")
        file = Marked(text, name)
        if dry_run:
            told("what there is")
            with self.database.snapshot() as connection:
                return changes(*self._states(connection, file))
        for _ in range(_ATTEMPTS):
            try:
                return self.database.write(partial(self._load, file=file, told=told))
            except ConcurrentUpdate:
                continue
        raise ConcurrentUpdate("others changed the same things again and again; try again")

    def dump(self) -> str:
        """Return the file that, loaded into an empty database, makes this cloud."""
        with self.database.snapshot() as connection:
            return text_of(show(read(connection, self._nobody), self._terms()))

    def _load(self, connection: Connection, file: Marked, told: Told) -> tuple[Change, ...]:
        change_counters.bump(connection, SUBJECT)
        told("what there is")
        before, after = self._states(connection, file)
        apply(connection, before, after, self.clock(), told)
        return changes(before, after)

    def _states(self, connection: Connection, file: Marked) -> tuple[State, State]:
        return file.read(lambda document: self._laid(connection, document))

    def _laid(self, connection: Connection, document: Any) -> tuple[State, State]:
        """Return what there is, and what a document makes of it."""
        sections = _FILE({} if document is None else document)
        if sections.get("version", VERSION) != VERSION:
            raise Misfit(f"this form of file is not known, {VERSION} is", "version")
        before = read(connection, self._nobody)
        draft = Draft(before, self._terms())
        with located("resource_classes"):
            draft.know_classes(sections.get("resource_classes", ()))
        with located("traits"):
            draft.know_traits(sections.get("traits", ()))
        for name, lay in _LAID_BEFORE:
            for index, entry in enumerate(sections.get(name, ())):
                with located(name, index):
                    lay(draft, entry)
        last = Instances(draft, flavors.ids_by_flavorid(connection))
        for name, lay_last in (("instances", last.lay), ("allocations", last.lay_allocations)):
            for index, entry in enumerate(sections.get(name, ())):
                with located(name, index):
                    lay_last(entry)
        return before, draft.settled()

    def _terms(self) -> Terms:
        return Terms(
            defaults=reports.defaults(self.settings, self.clock()),
            nobody=self._nobody,
            asked=_asked,
        )

    @property
    def _nobody(self) -> tuple[str, str]:
        options = self.settings.placement
        return options.incomplete_consumer_project_id, options.incomplete_consumer_user_id


def _asked(flavor: Flavor) -> Mapping[str, int]:
    return dict(resources_from_flavor(flavor, boot_from_volume=False))
