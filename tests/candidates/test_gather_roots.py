"""Every candidate of a cloud with trees lies on its own tree."""

from random import Random

import pytest

from placement_sched.candidates.search import find, prepare
from placement_sched.db.transaction import Database
from placement_sched.model.query import CandidatesQuery, RequestGroup
from placement_sched.store import provider_trees
from tests.clouds import NOW, Cloud, Host, load, stock, uuid_of


@pytest.mark.parametrize("strategy", ["depth-first", "breadth-first"])
def test_candidates_of_several_trees_keep_their_own_roots(
    sqlite_database: Database, sqlite_settings, strategy: str
) -> None:
    names = ("cn1", "cn2", "cn3")
    hosts = tuple(Host(name, stock("VCPU", 8) | stock("MEMORY_MB", 1024)) for name in names)
    load(sqlite_database, Cloud(hosts))
    child = uuid_of("a child makes a tree")
    sqlite_database.write(
        lambda connection: provider_trees.create(
            connection, uuid=child, name="child", parent_uuid=uuid_of("cn2"), now=NOW
        )
    )
    settings = sqlite_settings.overridden(
        {"placement.allocation_candidates_generation_strategy": strategy}
    )
    group = RequestGroup(resources=(("VCPU", 1), ("MEMORY_MB", 1)))
    with sqlite_database.read() as connection:
        search = prepare(connection, CandidatesQuery(groups=(group,)))
        found = find(connection, search, settings, Random(1))
    roots = {tuple(request.allocations): request.root_uuid for request in found.requests}
    assert roots == {(uuid_of(name),): uuid_of(name) for name in names}
