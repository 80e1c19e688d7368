# SPDX-License-Identifier: Apache-2.0
"""Texts of each kind of rejection."""

import pytest

from placement_sched.explain.kinds import KINDS, NUMA_CAUSES, PCI_CAUSES
from placement_sched.explain.phrases import (
    describe_code,
    describe_stage,
    format_clause,
    format_reason,
)
from tests.explain.sentences import CLAUSES, SENTENCES


@pytest.mark.parametrize(("kind", "values", "sentence"), SENTENCES)
def test_each_kind_of_a_filter_has_a_sentence(kind, values, sentence):
    assert format_reason({"kind": kind, **values}) == sentence


def test_every_kind_of_a_filter_is_tested():
    names = list(KINDS)
    tested = {kind for kind, *_ in SENTENCES}
    assert set(names[names.index("claimed") + 1 :]) <= tested


@pytest.mark.parametrize(
    ("kind", "causes"), [("numa_topology", NUMA_CAUSES), ("pci_device", PCI_CAUSES)]
)
def test_every_cause_is_tested(kind, causes):
    examples = [values for tested, values, _ in SENTENCES if tested == kind]
    parts = [part for values in examples for part in values.get("parts", ())]
    assert causes.keys() <= {values["cause"] for values in [*examples, *parts]}


@pytest.mark.parametrize(("kind", "values", "clause", "clauses"), CLAUSES)
def test_clause_is_about_a_host_or_several_hosts(kind, values, clause, clauses):
    values = {"kind": kind, **values}
    assert format_clause("RetryFilter", values, several=False) == clause
    assert format_clause("RetryFilter", values, several=True) == clauses


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kind": "retry", "hosts": 2}, "tried before"),
        ({"kind": "numa_topology"}, "NUMA topology does not fit"),
        ({"kind": "unknown_zone"}, "no such zone"),
        (
            {"kind": "capacity", "resource_class": "DISK_GB", "requested": 2048, "unit": "MB"},
            "not enough disk",
        ),
        ({"kind": "topology_spread"}, ""),
    ],
)
def test_stage_of_a_filter_has_the_words_of_an_operator(values, words):
    assert describe_stage(values) == words


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_every_kind_need_only_its_subject(kind):
    assert isinstance(describe_code(kind, None), str)
