# SPDX-License-Identifier: Apache-2.0
"""Compares amounts by resource class where a class may have another name by now."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import Connection, select

from placement_sched.db.tables import resource_classes
from tests.verifier.model import HeldAmounts


class ClassNames:
    """The names of classes, and since when they are those; None is since ever."""

    def __init__(self, connection: Connection) -> None:
        columns = resource_classes.c
        made, changed = columns.created_at, columns.updated_at
        rows = connection.execute(select(columns.name, made, changed)).all()
        self._made = {name: at for name, at, _ in rows}
        self._changed = {name: at or self._made[name] for name, _, at in rows}

    def since(self, moment: datetime | None) -> frozenset[str]:
        """Return those that stand for the class they stood for at a moment.

        Of one that was made or renamed in that second it is not known.
        """
        return frozenset(
            name
            for name, at in self._changed.items()
            if at is None or (moment is not None and at < moment)
        )

    def unchanged_since_request(self, asked: HeldAmounts) -> frozenset[str]:
        """Return those that stand for the class they stood for when, at any time, this was asked.

        They are of classes that were never renamed. Where a name is there no more, one that was not
        asked may be its new name, given in the second in which the class was made.
        """
        names = {name for _, name in asked}
        first = {name for name, at in self._changed.items() if at == self._made[name]}
        return frozenset(first if names <= self._changed.keys() else first & names)


def is_equal_amount(asked: HeldAmounts, held: HeldAmounts, same: Collection[str]) -> bool:
    """Return whether as much is held as was asked.

    Of classes whose names are not the ``same`` as then, the amounts of each provider have to be
    the same, of whichever of these classes.
    """
    return asked == held or _split_amounts(asked, same) == _split_amounts(held, same)


def _split_amounts(
    amounts: HeldAmounts, same: Collection[str]
) -> tuple[Mapping[tuple[str, str], int], list[tuple[str, int]]]:
    named = {key: used for key, used in amounts.items() if key[1] in same}
    other = [(key[0], used) for key, used in amounts.items() if key[1] not in same]
    return named, sorted(other)
