"""Names of resource classes and traits, as the Placement API reference has them."""

import re

from placement_sched.errors import Invalid

_SYMBOL = re.compile(r"[A-Z][A-Z0-9_]*")


def checked_name(source: str, name: str) -> str:
    """Return ``name``; raises :class:`Invalid` naming ``source`` if no class or trait has such."""
    if not _SYMBOL.fullmatch(name):
        raise Invalid(f"{source}: {name!r} is no name: upper case letters, digits and _ make one")
    return name
