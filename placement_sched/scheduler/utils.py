# SPDX-License-Identifier: Apache-2.0
"""Functions of ``nova.scheduler.utils``, for weighers written for nova."""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_log import log

from placement_sched.scheduler.filters.utils import aggregate_values_from_key, validate_num_values
from placement_sched.scheduler.host_state import HostState

LOG = log.getLogger(__name__)


def get_weight_multiplier(
    host_state: HostState, multiplier_name: str, multiplier_config: float
) -> float:
    """Return the multiplier of a weigher for a host.

    It is the smallest value of ``multiplier_name`` in the metadata of the host's aggregates. If
    there is no value, or if a value is not a number, it is ``multiplier_config``.
    """
    values = aggregate_values_from_key(host_state, multiplier_name)
    try:
        return float(validate_num_values(values, multiplier_config, cast_to=float))
    except ValueError:
        LOG.warning("aggregates of %s: %s is not a number: %s", host_state, multiplier_name, values)
        return multiplier_config


def parse_options(
    opts: Iterable[str], sep: str = "=", converter: Callable[[str], Any] = str, name: str = ""
) -> list[tuple[str, Any]]:
    """Parse the items of ``weight_setting``, such as ``cpu.percent=1.0``.

    An invalid item is skipped and logged, with ``name`` as the name of the option.
    """
    pairs: list[tuple[str, Any]] = []
    for item in opts:
        key, separator, text = item.partition(sep)
        try:
            value = converter(text)
        except ValueError:
            separator = ""
        if key and separator:
            pairs.append((key, value))
        else:
            LOG.warning("%s: expected NAME%sNUMBER, got %r", name or "options", sep, item)
    return pairs
