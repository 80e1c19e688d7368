# SPDX-License-Identifier: Apache-2.0
"""Values that are not of an option's type are told in plain words."""

import pytest
from oslo_config import cfg

from placement_sched.config.sources import check_number, describe_reason

AMOUNT = cfg.IntOpt("amount", min=1)
SHARE = cfg.FloatOpt("share")
SWITCH = cfg.BoolOpt("switch")


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        (AMOUNT, "many", "'many' is not an integer"),
        (AMOUNT, None, "null is not an integer"),
        (AMOUNT, [1], "[1] is not an integer"),
        (AMOUNT, "0", "Should be greater than or equal to 1"),
        (SHARE, "half", "'half' is not a number"),
        (SWITCH, "maybe", "Unexpected boolean value 'maybe'"),
    ],
)
def test_reason_is_plain(option, value, told):
    with pytest.raises((TypeError, ValueError)) as wrong:
        option.type([] if value is None else value)
    assert describe_reason(value, wrong.value) == told


@pytest.mark.parametrize("text", ["inf", "-inf", "nan"])
def test_numbers_that_nothing_counts_with_are_refused(text):
    with pytest.raises(ValueError, match=f"^{text} is not a finite number$"):
        check_number(SHARE, SHARE.type(text))


@pytest.mark.parametrize("value", [1.5, 0.0, 7, "inf", None, [1.0]])
def test_all_else_is_as_it_was(value):
    assert check_number(SHARE, value) == value


@pytest.mark.parametrize("kind", [cfg.FloatOpt, cfg.IntOpt])
def test_nothing_is_a_number_only_where_an_option_may_be_unset(kind):
    unset, always = kind("number"), kind("number", default=1)
    assert check_number(unset, unset.type("")) is None
    with pytest.raises(ValueError, match=r"^an empty text is not a number$"):
        check_number(always, always.type(""))
