# SPDX-License-Identifier: Apache-2.0
"""Detection of records that the database of this service has lost.

The database may be made again, or rows be deleted in it, while nova's databases do not change.
"""

from collections import Counter
from datetime import timedelta
from time import monotonic

from placement_sched.nova.databases import readers
from placement_sched.nova.sync import NOUNS
from placement_sched.nova.sync.cells import FollowedCell, NovaCells
from placement_sched.store.figures import count_nova_records

#: Seconds between two counts.
INTERVAL = 15.0
#: Instances of this age are counted. Newer instances may not be recorded yet.
_MIN_AGE = timedelta(minutes=1)


class LossDetector:
    """Comparison of the numbers of nova's rows and of their records.

    Nova may always have more rows, which a full sync reports as issues. Records are lost if the
    difference grows.
    """

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._accepted: Counter[str] | None = None
        self._due = 0.0

    def accept(self) -> None:
        """Accept the present differences, or raise NovaDatabaseUnavailable."""
        self._accepted = self._count_missing()

    def find_lost(self) -> dict[str, int]:
        """Map nouns to numbers of lost records, or raise NovaDatabaseUnavailable."""
        if self._accepted is None or monotonic() < self._due:
            return {}
        self._due = monotonic() + INTERVAL
        missing = self._count_missing()
        return {noun: missing[noun] for noun in NOUNS if missing[noun] > self._accepted[noun]}

    def _count_missing(self) -> Counter[str]:
        """Count nova's rows without a record, by noun.

        The result is empty while a cell is away. Records are counted first, so that rows that nova
        deletes at the same time do not seem to be lost.
        """
        created_before = self._cells.clock() - _MIN_AGE
        with self._cells.database.read() as connection:
            recorded = count_nova_records(connection, created_before)
        rows: Counter[str] = Counter()
        with self._cells.read_api() as connection:
            rows["host aggregates"], rows["server groups"] = readers.count_api_rows(connection)

        def count(cell: FollowedCell) -> None:
            with cell.database.read() as connection:
                services, _, nodes, _ = readers.count_rows(connection)
                instances = readers.count_instances(connection, created_before)
            rows.update({"services": services, "compute nodes": nodes, "instances": instances})

        self._cells.run_for_each_cell(count)
        return Counter() if self._cells.away else rows - Counter(recorded)
