# SPDX-License-Identifier: Apache-2.0
"""Substitute for ``nova.context``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from placement_sched.model.context import RequestContext, build_context

# Plugins make a context for each host, and the constructor takes longer than a copy.
_NOBODY = RequestContext()


def get_admin_context(read_deleted: str = "no") -> RequestContext:
    """Return a context with an administrator's rights and without a user."""
    return _NOBODY.elevated(read_deleted)


def get_context() -> RequestContext:
    """Return the context of the current request."""
    return build_context(None, None)


@contextmanager
def target_cell(context: Any, cell_mapping: Any) -> Iterator[Any]:
    """Yield the context: all cells are read as a single cloud."""
    yield context
