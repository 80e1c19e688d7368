"""Uuids in paths: written in any way, looked for in the usual one."""

from placement_sched.errors import Invalid
from placement_sched.model import shape


def usual(uuid: str) -> str:
    """Return the uuid of a path in lower case with hyphens; what is none as it is.

    Nothing has such a name, which is 404 and not 400, as on the other faces.
    """
    try:
        return shape.read(shape.uuid, uuid)
    except Invalid:
        return uuid
