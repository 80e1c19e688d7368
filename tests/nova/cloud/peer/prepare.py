# SPDX-License-Identifier: Apache-2.0
"""Run several nova-manage commands in a process, since each start of nova takes seconds."""

import sys

from nova import config, objects
from nova.cmd.manage import ApiDbCommands, CellV2Commands, DbCommands, PlacementCommands


def sync_databases(cell0: str) -> int:
    cells = CellV2Commands()
    return (
        ApiDbCommands().sync()
        or cells.map_cell0(cell0)
        or cells.create_cell(name="cell1")
        or DbCommands().sync()
        or 0
    )


def discover_hosts() -> int:
    return CellV2Commands().discover_hosts(verbose=True) or 0


def heal_allocations() -> int:
    return PlacementCommands().heal_allocations(skip_port_allocations=True)


JOBS = {"databases": sync_databases, "hosts": discover_hosts, "heal": heal_allocations}

if __name__ == "__main__":
    job, file, *rest = sys.argv[1:]
    config.parse_args(["nova-manage", "--config-file", file])
    objects.register_all()
    # cell_v2 create_cell returns None or 0 if it succeeds.
    sys.exit(JOBS[job](*rest))
