"""Every option tells the operator what it is for."""

import pytest

from placement_sched.scheduler import loading
from placement_sched.settings import options as core

OURS = [
    (group, option)
    for listing in (core.list_opts(), loading.list_opts())
    for group, options in listing
    for option in options
]


@pytest.mark.parametrize(
    ("group", "option"), OURS, ids=[f"[{group}]{option.dest}" for group, option in OURS]
)
def test_option_has_help(group, option):
    assert option.help
    assert option.help.strip().endswith(".")


def test_no_option_is_declared_twice():
    names = [(group, option.dest) for group, option in OURS]
    assert sorted(names) == sorted(set(names))
