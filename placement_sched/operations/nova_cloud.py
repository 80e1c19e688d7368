"""The cloud is nova's: what is read from nova's databases, and so cannot be changed here.

It is nova's where ``[api_database] connection`` is set. Provider aggregates, traits and inventories
belong to nova-api and nova-compute then, which send them to placement themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.errors import ReadFromNova
from placement_sched.schemas.formats import DocumentError
from placement_sched.store.compute import cells


class NovaNoun(Enum):
    """What is read from nova's databases, each with where it is changed."""

    HOST_AGGREGATES = "Host aggregates", "change them in nova, with openstack aggregate"
    SERVICES = "Services", "change them in nova, with openstack compute service"
    SERVER_GROUPS = "Server groups", "change them in nova, with openstack server group"
    COMPUTE_NODES = "Compute nodes", "nova-compute reports them to nova"
    INSTANCES = "Instances", "change them in nova, with openstack server"

    @property
    def refusal(self) -> str:
        """Return why it is not changed here, and where it is."""
        things, where = self.value
        read = "are read from nova's databases ([api_database] connection)"
        return f"{things} {read} and cannot be changed here: {where}."


#: The sections of a fleet file that hold what is read from nova's databases.
SECTIONS: Mapping[str, NovaNoun] = MappingProxyType(
    {
        "server_groups": NovaNoun.SERVER_GROUPS,
        "aggregates": NovaNoun.HOST_AGGREGATES,
        "hosts": NovaNoun.COMPUTE_NODES,
        "services": NovaNoun.SERVICES,
        "instances": NovaNoun.INSTANCES,
    }
)


@dataclass(frozen=True, slots=True)
class ReadingAge:
    """How old is what is recorded of nova's cells.

    ``oldest`` is the number of seconds since the cell that was read longest ago was read; None
    where no cell was read yet. ``away`` are the cells whose databases do not answer.
    """

    oldest: int | None
    away: tuple[str, ...] = ()


def reading_of(connection: Connection, now: datetime) -> ReadingAge:
    """Return how old the records of nova's cells are, in one statement."""
    all_cells = cells.all_cells(connection)
    ages = [
        None if cell.read_at is None else (now - cell.read_at).total_seconds() for cell in all_cells
    ]
    read = [age for age in ages if age is not None]
    away = tuple(cell.title for cell in all_cells if cell.is_away)
    return ReadingAge(max(0, int(max(read))) if read else None, away)


def is_novas(settings: Settings) -> bool:
    """Return whether the cloud is read from nova's databases."""
    return bool(settings.api_database.connection)


def check_not_novas(noun: NovaNoun, settings: Settings) -> None:
    """Raise :class:`ReadFromNova` where the noun is read from nova's databases."""
    if is_novas(settings):
        raise ReadFromNova(noun.refusal)


def check_sections(document: Any, settings: Settings) -> None:
    """Raise :class:`DocumentError` where a fleet file would change what nova's databases have."""
    if is_novas(settings) and isinstance(document, Mapping):
        for section, noun in SECTIONS.items():
            if document.get(section):
                raise DocumentError(noun.refusal.removesuffix("."), section, at_key=True)
