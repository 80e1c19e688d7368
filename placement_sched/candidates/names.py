"""Turns the names in a question into ids, or says which name there is not."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from placement_sched.errors import Invalid
from placement_sched.model.query import CandidatesQuery
from placement_sched.store import resource_classes, traits


@dataclass(frozen=True, slots=True)
class Names:
    """Ids of every resource class there is, and of the traits that a question names."""

    classes: Mapping[str, int]
    traits: Mapping[str, int]

    @property
    def class_names(self) -> dict[int, str]:
        """Return the name of every resource class by its id."""
        return {number: name for name, number in self.classes.items()}


def resolve(connection: Connection, query: CandidatesQuery) -> Names:
    """Return the ids of all names used.

    Raises :class:`Invalid` for classes and traits that do not exist, naming each of them.
    """
    wanted_classes = {name for group in query.groups for name, _ in group.resources}
    wanted_traits = {name for group in query.groups for name in group.traits.names}
    classes = {name: key for key, name in resource_classes.all_by_id(connection).items()}
    found = traits.ids_by_name(connection, wanted_traits) if wanted_traits else {}
    if lacking := sorted(wanted_classes - classes.keys()):
        raise Invalid(
            f"Invalid resource class in resources parameter: No such resource class "
            f"{', '.join(lacking)}."
        )
    if lacking := sorted(wanted_traits - found.keys()):
        raise Invalid(f"No such trait(s): {', '.join(lacking)}.")
    return Names(classes, found)
