# SPDX-License-Identifier: Apache-2.0
"""The documented kinds of rejections, and their values."""

from itertools import chain, combinations
from typing import Any

import pytest

from placement_sched.api.scheduler.responses import REJECTION_KIND
from placement_sched.explain.kinds import KINDS, NUMA_CAUSES, PCI_CAUSES
from placement_sched.explain.phrases import FURTHER_KINDS
from placement_sched.model.rejection import OTHER
from tests.explain.sentences import CLAUSES, SENTENCES
from tests.support.rejection_kinds import (
    find_undocumented_values,
    read_documented_causes,
    read_documented_values,
    read_further_kinds,
)

#: Examples of values that are no numbers, by key.
EXAMPLES: dict[str, Any] = {
    "resource_class": "VCPU",
    "traits": ["CUSTOM_A"],
    "aggregates": ["a1"],
    "groups": ["1", "2"],
    "trees": ["t1"],
    "rules": ["isolate"],
    "amounts": [1, 2],
    "free_amounts": [1],
    "attributes": {"$host": "cn1"},
    "unit": "MB",
    "zones": ["az1"],
    "similar_names": ["az1"],
}


def find_missing_values(text: Any, documented: frozenset[str]) -> set[str]:
    """Return the values that a sentence reads and the page does not document."""
    missing: set[str] = set()
    names = sorted(documented - {"parts"})
    for chosen in chain.from_iterable(
        combinations(names, count) for count in range(len(names) + 1)
    ):
        values = {name: EXAMPLES.get(name, 3) for name in chosen}
        try:
            text(values) if callable(text) else text.format_map(values)
        except KeyError as error:
            missing.add(error.args[0])
    return missing


def test_page_lists_exactly_the_kinds_of_rejections():
    assert list(read_documented_values()) == [*KINDS, OTHER]


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_each_sentence_are_documented(kind):
    documented = read_documented_values()[kind]
    names = ("short", "clause", "clauses", *([] if "cause" in documented else ["reason"]))
    texts = [getattr(KINDS[kind], name) for name in names]
    assert set().union(*(find_missing_values(text, documented) for text in texts)) <= documented


@pytest.mark.parametrize("causes", [NUMA_CAUSES, PCI_CAUSES], ids=["numa_topology", "pci_device"])
def test_every_cause_is_documented(causes):
    assert read_documented_causes().keys() >= causes.keys()


@pytest.mark.parametrize(("kind", "values"), [row[:2] for row in (*SENTENCES, *CLAUSES)])
def test_values_of_each_example_are_documented(kind, values):
    assert find_undocumented_values({"kind": kind, **values}) == set()


def test_openapi_document_names_every_kind():
    kinds = (*KINDS, OTHER, *read_further_kinds())
    assert all(f" {kind}" in REJECTION_KIND["description"] for kind in kinds)


def test_page_lists_exactly_the_further_kinds():
    assert read_further_kinds() == FURTHER_KINDS
