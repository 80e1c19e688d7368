# SPDX-License-Identifier: Apache-2.0
"""Change counters of hosts, for changes of nodes, services and heartbeats.

Reports of 10 000 hosts per minute must not wait for a single row, and a reader must not read 1000
rows to find out that nothing changed. Hosts are therefore divided into groups (parts), each with a
change counter. Every transaction that changes a node or service of a group increments the counter.
Only this service writes the tables of nodes and services, and their store modules record each
change here.
"""

import zlib
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from placement_sched.store import change_counters

#: Number of host groups: as many concurrent reports rarely wait for the same row.
PARTS = 64
_SUBJECT = "hosts/"


def part_of(host: str) -> int:
    """Return the number of the group that a host belongs to, which never changes."""
    return zlib.crc32(host.encode()) % PARTS


def versions(connection: Connection) -> Mapping[int, int]:
    """Map the groups of hosts that have ever changed to their versions.

    Data read afterwards is current as long as the versions of its groups are the same.
    """
    rows = change_counters.versions(connection, _SUBJECT)
    return {int(subject.removeprefix(_SUBJECT)): version for subject, version in rows.items()}


def note(connection: Connection, hosts: Iterable[str]) -> None:
    """Record a change of hosts' nodes or services, in the transaction of the change."""
    parts = {part_of(host) for host in hosts}
    change_counters.bump_all(connection, [f"{_SUBJECT}{part}" for part in sorted(parts)])
