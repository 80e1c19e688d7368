"""Which hosts may have changed: their nodes, services and heartbeats, by a few change counters.

Ten thousand hosts report each minute, and must not queue for one row; and a reader must not look
at a thousand rows to learn that none has changed. So hosts are divided into parts, and each part
has a change counter: it rises in every transaction that changes a node or a service of one of its
hosts. Compute nodes and services are tables that only this service writes, and their stores note
each change here, so that no writer can forget it.
"""

import zlib
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from placement_sched.store import change_counters

#: The number of parts. Of as many single reports at once hardly two wait for the same row.
PARTS = 64
_SUBJECT = "hosts/"


def part_of(host: str) -> int:
    """Return the part that a host belongs to, for good."""
    return zlib.crc32(host.encode()) % PARTS


def versions(connection: Connection) -> Mapping[int, int]:
    """Return the version of each part that was changed since the beginning.

    What is read after it holds for as long as the versions of its parts are the same.
    """
    found = change_counters.versions(connection, _SUBJECT)
    return {int(subject.removeprefix(_SUBJECT)): version for subject, version in found.items()}


def note(connection: Connection, hosts: Iterable[str]) -> None:
    """Note, in the transaction that makes it so, that nodes or services of hosts are different."""
    parts = {part_of(host) for host in hosts}
    change_counters.bump_all(connection, [f"{_SUBJECT}{part}" for part in sorted(parts)])
