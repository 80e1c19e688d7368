"""Values that are not of an option's type are told in plain words."""

import pytest
from oslo_config import cfg

from placement_sched.config.wrong_values import plain_reason

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
    assert plain_reason(value, wrong.value) == told
