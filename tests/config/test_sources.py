# SPDX-License-Identifier: Apache-2.0
"""Errors about values of a wrong type are plain sentences."""

import pytest
from oslo_config import cfg

from placement_sched.config.sources import check_number, describe_reason

AMOUNT = cfg.IntOpt("amount", min=1)
SHARE = cfg.FloatOpt("share")
SWITCH = cfg.BoolOpt("switch")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (AMOUNT, "many", "'many' is not an integer"),
        (AMOUNT, None, "null is not an integer"),
        (AMOUNT, [1], "[1] is not an integer"),
        (AMOUNT, "0", "Should be greater than or equal to 1"),
        (SHARE, "half", "'half' is not a number"),
        (SWITCH, "maybe", "Unexpected boolean value 'maybe'"),
    ],
)
def test_configuration_error_message_is_plain(option, value, message):
    with pytest.raises((TypeError, ValueError)) as failure:
        option.type([] if value is None else value)
    assert describe_reason(value, failure.value) == message


@pytest.mark.parametrize("text", ["inf", "-inf", "nan"])
def test_nan_and_infinity_are_rejected(text):
    with pytest.raises(ValueError, match=f"^{text} is not a finite number$"):
        check_number(SHARE, SHARE.type(text))


@pytest.mark.parametrize("value", [1.5, 0.0, 7, "inf", None, [1.0]])
def test_other_numbers_are_accepted(value):
    assert check_number(SHARE, value) == value


@pytest.mark.parametrize("kind", [cfg.FloatOpt, cfg.IntOpt])
def test_empty_number_needs_an_optional_option(kind):
    unset, always = kind("number"), kind("number", default=1)
    assert check_number(unset, unset.type("")) is None
    with pytest.raises(ValueError, match=r"^an empty text is not a number$"):
        check_number(always, always.type(""))
