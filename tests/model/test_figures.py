# SPDX-License-Identifier: Apache-2.0
"""Figures of a cloud, limited to the largest zones and classes."""

from hypothesis import given
from hypothesis import strategies as st

from placement_sched.model.figures import OTHER, CloudFigures


@given(
    st.dictionaries(st.tuples(st.sampled_from("ABCDE"), st.sampled_from("wxyz")), st.integers(1, 9))
)
def test_capacity_limited_to_few_zones_and_classes_keeps_its_total(amounts):
    figures = CloudFigures({}, amounts, {}).limit_names(2)
    assert sum(figures.capacity.values()) == sum(amounts.values())
    for at in (0, 1):
        assert len({key[at] for key in figures.capacity} - {OTHER}) <= 2
