# SPDX-License-Identifier: Apache-2.0
"""``nova.utils``, and functions of ``nova.scheduler.utils`` for requests."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from oslo_utils.versionutils import (
    convert_version_to_int,
    convert_version_to_str,
    convert_version_to_tuple,
)

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters.utils import (
    aggregate_metadata_get_by_host,
    aggregate_values_from_key,
    validate_num_values,
)

__all__ = ["aggregate_metadata_get_by_host", "aggregate_values_from_key", "validate_num_values"]
__all__ += ["convert_version_to_int", "convert_version_to_str", "convert_version_to_tuple"]
__all__ += ["request_is_rebuild", "synchronized"]

_LOCKS: defaultdict[str, Lock] = defaultdict(Lock)


@contextmanager
def synchronized(name: str, *_options: Any, **_more: Any) -> Iterator[None]:
    """Run the decorated function in a single thread at a time."""
    with _LOCKS[name]:
        yield


def request_is_rebuild(spec_obj: RequestSpec | None) -> bool:
    """Return whether the request rebuilds an instance on its host."""
    return spec_obj is not None and spec_obj.is_rebuild
