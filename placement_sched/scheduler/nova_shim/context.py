# SPDX-License-Identifier: Apache-2.0
"""``nova.context``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from placement_sched.model.caller import RequestContext, build_context


def get_admin_context(read_deleted: str = "no") -> RequestContext:
    """Return a context with the rights of an administrator, of no user."""
    return RequestContext(is_admin=True, read_deleted=read_deleted, roles=["admin"])


def get_context() -> RequestContext:
    """Return the context of the current request."""
    return build_context(None, None)


@contextmanager
def target_cell(context: Any, cell_mapping: Any) -> Iterator[Any]:
    """Yield the context: all cells are read as a single cloud."""
    yield context
