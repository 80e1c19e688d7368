"""A first question that nobody waits for, so that the first one that counts is answered quickly."""

from contextlib import suppress
from random import Random

from placement_sched.candidates.search import find, prepare
from placement_sched.candidates.summaries import Shape, Summaries
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid
from placement_sched.model.query import CandidatesQuery, RequestGroup

#: What most requests ask for, and as much of it as nova asks for at once.
_QUESTION = CandidatesQuery(
    groups=(RequestGroup(resources=(("VCPU", 1), ("MEMORY_MB", 1), ("DISK_GB", 1))),), limit=1000
)
_NEWEST = Shape(classes=None, traits=True, tree=True)


def rehearse(database: Database, summaries: Summaries, settings: Settings, random: Random) -> None:
    """Ask for allocation candidates, for the sake of what is kept of it.

    That are statements compiled, a connection, and the summaries of the first hosts. A question
    that is refused here, as too dear for the operator or for lack of a class, has rehearsed what
    it could. Raises :class:`Unavailable` where the database does not answer.
    """
    with database.read() as connection, suppress(Invalid):
        search = prepare(connection, _QUESTION)
        found = find(connection, search, settings, random)
        shown = found.providers if found.trees is None else found.trees
        summaries.render(connection, shown, search.names.class_names, _NEWEST, found.usages)
