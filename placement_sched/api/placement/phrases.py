"""Phrases with which details of some routes begin: clients of OpenStack placement look for them."""

from collections.abc import Iterator
from contextlib import contextmanager

from placement_sched.errors import ConcurrentUpdate, InUse
from placement_sched.store.resource_providers import GENERATION_CHANGED


@contextmanager
def update_conflict() -> Iterator[None]:
    """Begin the detail as an update does that would remove an inventory in use."""
    try:
        yield
    except InUse as refusal:
        refusal.detail = f"update conflict: {refusal.detail}"
        raise


@contextmanager
def generation_changed() -> Iterator[None]:
    """Begin the detail of a conflict of generations as routes of aggregates and traits do."""
    try:
        yield
    except ConcurrentUpdate as conflict:
        if conflict.detail.endswith(GENERATION_CHANGED):
            rest = conflict.detail.removesuffix(GENERATION_CHANGED).strip()
            conflict.detail = f"{GENERATION_CHANGED} {rest}"
        raise
