# SPDX-License-Identifier: Apache-2.0
"""Every option has help, a single declaration and a maximum."""

import re
from datetime import datetime, timedelta
from threading import TIMEOUT_MAX

import pytest
from oslo_config import cfg

from placement_sched.config import options as core
from placement_sched.config.settings import MAX_INT, MAX_WAIT
from placement_sched.scheduler import plugins

pytestmark = pytest.mark.slow

DECLARED_OPTIONS = [
    (group, option)
    for listing in (core.list_opts(), plugins.list_opts())
    for group, options in listing
    for option in options
]


def test_options_have_help():
    options_without_help = [
        f"[{group}] {option.dest}"
        for group, option in DECLARED_OPTIONS
        if not (option.help or "").strip().endswith(".")
    ]
    assert options_without_help == []


def test_no_option_is_declared_twice():
    names = [(group, option.dest) for group, option in DECLARED_OPTIONS]
    assert sorted(names) == sorted(set(names))


#: Numbers that are only multiplied, added or compared, or that another limit bounds.
OPTIONS_WITHOUT_MAXIMUM = re.compile(
    r"(allocation_ratio|multiplier|weight_of_unavailable|budget|per_host|_size|max_request_groups"
    r"|max_member_of|\] workers)$"
)


def test_duration_and_limit_options_have_a_maximum():
    """Python raises for a span of a million years, and the response would be 500."""
    unbounded = [
        name
        for group, option in DECLARED_OPTIONS
        if isinstance(option, cfg.IntOpt | cfg.FloatOpt)
        and not isinstance(option, cfg.PortOpt)
        and option.type.max is None
        and option.type(10**18) > MAX_INT  # a value above the maximum may mean the maximum
        and not OPTIONS_WITHOUT_MAXIMUM.search(name := f"[{group}] {option.dest}")
    ]
    assert unbounded == []


def test_maximum_durations_do_not_overflow_times_and_timeouts():
    assert timedelta(seconds=MAX_INT)
    assert datetime(2026, 1, 1) - timedelta(seconds=MAX_INT) > datetime(1900, 1, 1)
    assert MAX_INT <= TIMEOUT_MAX
    # PostgreSQL's timeouts are in milliseconds. The timeout of the socket is slightly longer.
    assert (MAX_WAIT + 3600) * 1000 < 2**31
