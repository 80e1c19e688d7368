# SPDX-License-Identifier: Apache-2.0
"""Protection of objects that this service reads from nova's databases.

With ``[api_database] connection``, the APIs and commands of this service cannot change these
objects. nova-api and nova-compute then send provider aggregates, traits and inventories to
placement.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.errors import ManagedByNova
from placement_sched.schemas.formats import DocumentError
from placement_sched.store.compute import cells


class NovaObjectKind(Enum):
    """Kind of object in nova's databases, with the way to change it."""

    HOST_AGGREGATES = "Host aggregates", "change them in nova, with openstack aggregate"
    SERVICES = "Services", "change them in nova, with openstack compute service"
    SERVER_GROUPS = "Server groups", "change them in nova, with openstack server group"
    COMPUTE_NODES = "Compute nodes", "nova-compute reports them to nova"
    INSTANCES = "Instances", "change them in nova, with openstack server"

    @property
    def rejection(self) -> str:
        """Return the error message, which names the way to change the object."""
        things, how_to_change = self.value
        read = "are read from nova's databases ([api_database] connection)"
        return f"{things} {read} and cannot be changed here: {how_to_change}."


#: Sections of a fleet file whose objects are read from nova's databases.
SECTIONS: Mapping[str, NovaObjectKind] = MappingProxyType(
    {
        "server_groups": NovaObjectKind.SERVER_GROUPS,
        "aggregates": NovaObjectKind.HOST_AGGREGATES,
        "hosts": NovaObjectKind.COMPUTE_NODES,
        "services": NovaObjectKind.SERVICES,
        "instances": NovaObjectKind.INSTANCES,
    }
)


@dataclass(frozen=True, slots=True)
class NovaDataAge:
    """The age of the records that were read from nova's cells.

    ``seconds`` is the age of the oldest reading of a cell, or None if no cell was read yet.
    ``down_cells`` are the titles of the cells whose databases are unavailable.
    """

    seconds: int | None
    down_cells: tuple[str, ...] = ()


def compute_nova_data_age(connection: Connection, now: datetime) -> NovaDataAge:
    """Return the age of the records of nova's cells, in a single statement."""
    all_cells = cells.list_cells(connection)
    ages = [
        None if cell.read_at is None else (now - cell.read_at).total_seconds() for cell in all_cells
    ]
    read = [age for age in ages if age is not None]
    down_cells = tuple(cell.title for cell in all_cells if cell.is_down)
    return NovaDataAge(max(0, int(max(read))) if read else None, down_cells)


def is_read_from_nova(settings: Settings) -> bool:
    """Return whether the cloud is read from nova's databases."""
    return bool(settings.api_database.connection)


def check_not_read_from_nova(kind: NovaObjectKind, settings: Settings) -> None:
    """Raise :class:`ManagedByNova` if objects are read from nova's databases."""
    if is_read_from_nova(settings):
        raise ManagedByNova(kind.rejection)


def check_sections(document: Any, settings: Settings) -> None:
    """Raise :class:`DocumentError` if a fleet file changes objects of nova."""
    if is_read_from_nova(settings) and isinstance(document, Mapping):
        for section, kind in SECTIONS.items():
            if document.get(section):
                raise DocumentError(kind.rejection.removesuffix("."), section, at_key=True)
