# SPDX-License-Identifier: Apache-2.0
"""Comparison of amounts of resource classes that may have been renamed."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import Connection, select

from placement_sched.db.tables import resource_classes
from tests.verifier.model import HeldAmounts


class ClassNames:
    """The names of resource classes, and the times when they were given."""

    def __init__(self, connection: Connection) -> None:
        columns = resource_classes.c
        created, changed = columns.created_at, columns.updated_at
        rows = connection.execute(select(columns.name, created, changed)).all()
        self._made = {name: at for name, at, _ in rows}
        self._changed = {name: at or self._made[name] for name, _, at in rows}

    def since(self, moment: datetime | None) -> frozenset[str]:
        """Return the names that were given before a moment.

        A name that was given in the same second is left out. So is every name with a time if
        ``moment`` is None.
        """
        return frozenset(
            name
            for name, at in self._changed.items()
            if at is None or (moment is not None and at < moment)
        )

    def unchanged_since_request(self, requested: HeldAmounts) -> frozenset[str]:
        """Return the names that have the same meaning at every possible time of a request.

        Classes that were renamed are left out. If a requested class no longer exists, every
        class that was not requested may be that class: it can be renamed in the second of
        its creation.
        """
        names = {name for _, name in requested}
        original = {name for name, at in self._changed.items() if at == self._made[name]}
        return frozenset(original if names <= self._changed.keys() else original & names)


def is_equal_amount(requested: HeldAmounts, held: HeldAmounts, same: Collection[str]) -> bool:
    """Return whether the held amounts are the requested amounts.

    The amounts of classes in ``same`` are compared by name. Other classes may have been renamed:
    only the amounts of each provider are compared, not the names.
    """
    return requested == held or _split_amounts(requested, same) == _split_amounts(held, same)


def _split_amounts(
    amounts: HeldAmounts, same: Collection[str]
) -> tuple[Mapping[tuple[str, str], int], list[tuple[str, int]]]:
    named = {key: used for key, used in amounts.items() if key[1] in same}
    other = [(key[0], used) for key, used in amounts.items() if key[1] not in same]
    return named, sorted(other)
