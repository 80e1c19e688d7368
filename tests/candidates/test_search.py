# SPDX-License-Identifier: Apache-2.0
"""The candidate search: comparison with the naive reference, limit and random sample."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.candidates.search import find, prepare
from placement_sched.errors import Invalid
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup, TraitTerms
from tests.candidates.reference import candidates_of
from tests.candidates.reload import reload
from tests.candidates.sources import source_of
from tests.candidates.strategies import clouds, examples, groups
from tests.support.clouds import Cloud, Host, build_inventory, load_cloud

pytestmark = [pytest.mark.all_databases, pytest.mark.usefixtures("each_source")]

EXAMPLES = examples(40)


def _search(database, group, options, limit=None):
    query = CandidatesQuery(groups=(group,), limit=limit)
    with database.read() as connection:
        return find(
            source_of(connection), prepare(source_of(connection), query), options, Random(7)
        )


def _uuids(found):
    return [provider.uuid for provider in found.providers]


def _expected_uuids(cloud, group):
    expected = candidates_of(cloud, CandidatesQuery(groups=(group,)))
    return [root for root, candidates in expected.items() if candidates]


@EXAMPLES
@given(cloud=clouds(), group=groups())
def test_search_equals_the_naive_model(database, settings, cloud, group):
    reload(database, cloud)
    assert _uuids(_search(database, group, settings)) == _expected_uuids(cloud, group)


@EXAMPLES
@given(cloud=clouds(), group=groups(), limit=st.integers(1, 4))
def test_limit_keeps_the_first_by_provider_id(database, settings, cloud, group, limit):
    reload(database, cloud)
    uuids = _uuids(_search(database, group, settings, limit))
    assert uuids == _expected_uuids(cloud, group)[:limit]


@pytest.fixture
def twenty_hosts(database):
    hosts = tuple(Host(f"cn{n:02}", build_inventory("VCPU", 4)) for n in range(20))
    load_cloud(database, Cloud(hosts))
    return hosts


def test_random_sample_has_the_right_size_and_only_fitting_providers(
    database, settings, twenty_hosts
):
    shuffled = settings.with_overrides({"placement.randomize_allocation_candidates": True})
    uuids = _uuids(_search(database, RequestGroup(resources=(("VCPU", 1),)), shuffled, 5))
    assert len(set(uuids)) == 5
    assert set(uuids) <= {host.uuid for host in twenty_hosts}
    assert uuids != [host.uuid for host in twenty_hosts[:5]]


def test_configured_maximum_limits_every_answer(database, settings, twenty_hosts):
    bounded = settings.with_overrides({"placement.max_allocation_candidates": 3})
    group = RequestGroup(resources=(("VCPU", 1),))
    assert len(_search(database, group, bounded).requests) == 3
    assert len(_search(database, group, bounded, 2).requests) == 2


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (RequestGroup(resources=(("CUSTOM_NOPE", 1),)), "CUSTOM_NOPE"),
        (
            RequestGroup(resources=(("VCPU", 1),), traits=TraitTerms((frozenset({"CUSTOM_NO"}),))),
            "CUSTOM_NO",
        ),
        (
            RequestGroup(
                resources=(("VCPU", 1),), traits=TraitTerms((), frozenset({"CUSTOM_NEVER"}))
            ),
            "CUSTOM_NEVER",
        ),
    ],
    ids=["class", "required", "forbidden"],
)
def test_unknown_name_is_rejected_with_its_name(database, settings, group, words):
    with pytest.raises(Invalid, match=words):
        _search(database, group, settings)
