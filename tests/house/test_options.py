"""Every option tells the operator what it is for."""

from placement_sched.scheduler import loading
from placement_sched.settings import options as core

OURS = [
    (group, option)
    for listing in (core.list_opts(), loading.list_opts())
    for group, options in listing
    for option in options
]


def test_options_have_help():
    without = [
        f"[{group}] {option.dest}"
        for group, option in OURS
        if not (option.help or "").strip().endswith(".")
    ]
    assert without == []


def test_no_option_is_declared_twice():
    names = [(group, option.dest) for group, option in OURS]
    assert sorted(names) == sorted(set(names))
