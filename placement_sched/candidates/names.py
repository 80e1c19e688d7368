"""Turns the names in a question into ids, or says which name there is not."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from placement_sched.errors import Invalid
from placement_sched.model.query import CandidatesQuery
from placement_sched.store import resource_classes, traits


@dataclass(frozen=True, slots=True)
class Names:
    """Ids of every resource class and trait that a question names."""

    classes: Mapping[str, int]
    traits: Mapping[str, int]


def resolve(connection: Connection, query: CandidatesQuery) -> Names:
    """Return the ids of all names used.

    Raises :class:`Invalid` for classes and traits that do not exist, naming each of them.
    """
    wanted_classes = {name for group in query.groups for name, _ in group.resources}
    wanted_traits = {name for group in query.groups for name in group.traits.names}
    classes = resource_classes.ids_by_name(connection, wanted_classes)
    found = traits.ids_by_name(connection, wanted_traits) if wanted_traits else {}
    if lacking := sorted(wanted_classes - classes.keys()):
        raise Invalid(
            f"Invalid resource class in resources parameter: No such resource class "
            f"{', '.join(lacking)}."
        )
    if lacking := sorted(wanted_traits - found.keys()):
        raise Invalid(f"No such trait(s): {', '.join(lacking)}.")
    return Names(classes, found)
