# SPDX-License-Identifier: Apache-2.0
"""Searches with explanations, and their queries."""

from collections import defaultdict
from random import Random

from sqlalchemy import select

from placement_sched.candidates.search import find, prepare
from placement_sched.db.tables import resource_providers
from placement_sched.explain.report import SearchRun, explain, iterate_steps
from placement_sched.explain.values import EVERYTHING
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup, TraitTerms
from placement_sched.store.compute.compute_nodes import NodeNames
from tests.candidates.sources import make_provider_source


def explain_search(database, query, settings, view=EVERYTHING):
    with database.read() as connection:
        search = prepare(make_provider_source(connection), query)
        result = find(make_provider_source(connection), search, settings, Random(7))
        run = SearchRun(
            connection,
            make_provider_source(connection),
            search,
            result,
            settings,
            NodeNamesOfAllProviders(),
        )
        reported = explain(run, view)
        _check_steps_without_reasons(run, reported)
        return result, reported


class NodeNamesOfAllProviders(NodeNames):
    """Every provider is a compute node of its own name."""

    def get_current(self, connection):
        names = select(resource_providers.c.uuid, resource_providers.c.name)
        return {uuid: (name, name) for uuid, name in connection.execute(names)}


def _check_steps_without_reasons(run, reported):
    """Compare the steps without reasons with the steps of the explanation."""
    names, removed = run.names.get_current(run.connection), defaultdict(list)
    for step, uuids in iterate_steps(run):
        removed[step] += [names[uuid][0] for uuid in uuids]
    expected = defaultdict(list)
    for step in reported.steps:
        expected[step.constraint] += [rejection.host for rejection in step.rejected]
    steps = {step: sorted(hosts) for step, hosts in removed.items()}
    assert steps == {step: sorted(hosts) for step, hosts in expected.items() if hosts}


def build_request_group(suffix="", required=(), **resources):
    return RequestGroup(
        suffix=suffix,
        resources=tuple(resources.items()),
        traits=TraitTerms(tuple(frozenset({name}) for name in required)),
    )


ISOLATED_GROUPS_QUERY = CandidatesQuery(
    groups=tuple(build_request_group(suffix, SRIOV_NET_VF=1) for suffix in ("1", "2", "3")),
    group_policy="isolate",
)
SAME_SUBTREE_QUERY = CandidatesQuery(
    groups=(
        build_request_group("_A", ["CUSTOM_TYPE1"], FPGA=1),
        build_request_group("_B", ["CUSTOM_TYPE2"], FPGA=1),
    ),
    group_policy="none",
    same_subtrees=(("_A", "_B"),),
)
