"""The pages that an instance's memory is made of.

Sources: nova's documentation, "Huge pages" and "Extra Specs" (``hw:mem_page_size``,
``hw:locked_memory``).
"""

from collections.abc import Mapping
from types import MappingProxyType

from oslo_utils.strutils import string_to_bytes

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.numa_topology import PAGES_ANY, PAGES_LARGE, PAGES_SMALL
from placement_sched.scheduler.hardware.both import (
    agreed_flag,
    conflict,
    of_flavor,
    of_image,
    place,
    said,
)
from placement_sched.scheduler.hardware.memory_encryption import encryption_model

_SIZE = "mem_page_size"
_WORDS: Mapping[str, int] = MappingProxyType(
    {"small": PAGES_SMALL, "large": PAGES_LARGE, "any": PAGES_ANY}
)


def page_size(flavor: Flavor, image: Image) -> float | None:
    """Return the size of memory pages in KiB, a fraction where kilobits make one.

    The words ``small``, ``large`` and ``any`` are :data:`PAGES_SMALL` and its fellows; None where
    nothing is asked. An image may only choose where its flavor says ``large`` or ``any``: raises
    :class:`Invalid` where it chooses otherwise, and for what is no size.
    """
    by_flavor, by_image = said(flavor, image, _SIZE)
    if not by_flavor and not by_image:
        return None
    size = _in_kib(by_flavor, of_flavor(_SIZE)) if by_flavor else None
    if not by_image:
        return size
    if size not in (PAGES_LARGE, PAGES_ANY):
        why = "an image may choose pages only where its flavor says 'large' or 'any'"
        raise conflict(flavor, image, _SIZE, why)
    return _in_kib(by_image, of_image(_SIZE))


def locked_memory(flavor: Flavor, image: Image) -> bool | None:
    """Return whether memory is never swapped out; None where nothing says so.

    Some encryption of memory asks for it too. Raises :class:`Invalid` where flavor and image
    contradict each other, or no page size stands beside the wish.
    """
    locked = agreed_flag(flavor, image, "locked_memory")
    if locked and not any(said(flavor, image, _SIZE)):
        where = place(flavor, image, "locked_memory")
        raise Invalid(f"{where} asks for a page size beside it, {of_flavor(_SIZE)}")
    if locked:
        return True
    encryption = encryption_model(flavor, image)
    return True if encryption and encryption.locks_memory else locked


def _in_kib(text: str, where: str) -> float:
    """Return the size that a text names: a word, a number of KiB, or a number with a unit."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text) if text.isdigit() else string_to_bytes(text, return_int=True) / 1024
    except (ValueError, OverflowError):
        raise Invalid(
            f"{where}: expected small, large, any, KiB or a size with a unit, got {text!r}"
        ) from None
