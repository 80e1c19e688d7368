"""The one number that several aggregates of a host say under one key."""

from collections.abc import Callable
from typing import TypeVar

from oslo_log import log

from placement_sched.scheduler.filters.utils import aggregate_values_from_key, validate_num_values
from placement_sched.scheduler.host_state import HostState

LOG = log.getLogger(__name__)

Number = TypeVar("Number", int, float)


def smallest_of_aggregates(
    host_state: HostState, key: str, cast_to: Callable[[str], Number], otherwise: Number
) -> Number:
    """Return the smallest value of ``key`` in the metadata of the host's aggregates.

    ``otherwise`` where none of them has the key. Where one value is no number, which of the others
    was meant to be undercut is not known: that is logged, and ``otherwise`` is returned as well.
    Values are not split at commas. Source: nova's "Filter Scheduler", Stein, and nova 34 observed.
    """
    values = aggregate_values_from_key(host_state, key)
    try:
        found: Number = validate_num_values(values, otherwise, cast_to=cast_to)
    except ValueError as wrong:
        LOG.warning(
            "host %s: %s of its aggregates is no number (%s): %s is taken instead",
            host_state.host,
            key,
            wrong,
            otherwise,
        )
        return otherwise
    return found
