"""Options that say by how much things of some name count, as ``name=ratio``."""

from collections.abc import Iterable
from math import isfinite

from oslo_log import log

LOG = log.getLogger(__name__)


def named_ratios(option: str, items: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Return each name of a list option with its ratio, in the order written.

    As in nova, what is not ``name=number`` is logged and ignored.
    """
    pairs = [(item, *_parts(item)) for item in items]
    bad = [item for item, name, ratio in pairs if not name or ratio is None]
    if bad:
        LOG.warning("%s: not name=number, and ignored: %s", option, ", ".join(bad))
    return tuple((name, ratio) for _, name, ratio in pairs if name and ratio is not None)


def _parts(item: str) -> tuple[str, float | None]:
    """Return name and ratio of one item; no ratio where it is not a finite number."""
    name, _, text = item.partition("=")
    try:
        ratio = float(text)
    except ValueError:
        return name.strip(), None
    return name.strip(), ratio if isfinite(ratio) else None
