"""Whose turn it is to change the schema, where the lock is a table; tests/galera has real nodes."""

from unittest.mock import Mock

import pymysql
from pymysql.constants import ER
from sqlalchemy.exc import OperationalError

from placement_sched.db.schema_turn import TURN, one_at_a_time


class Node:
    """A connection to a node that ends the first attempt to take the turn."""

    dialect = Mock()
    dialect.name = "mysql"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute(self, statement, _parameters=None):
        self.asked.append(str(statement))
        if str(statement).startswith("CREATE TABLE") and len(self._attempts()) == 1:
            aborted = pymysql.err.OperationalError(ER.LOCK_DEADLOCK, "Deadlock found")
            raise OperationalError(str(statement), {}, aborted)
        return Mock(first=Mock(return_value=("wsrep_on", "ON")))

    def scalar(self, _statement) -> str:
        return "2026-01-02 03:04:05"

    def scalars(self, _statement, _parameters) -> list[str]:
        return []

    def _attempts(self) -> list[str]:
        return [one for one in self.asked if one.startswith("CREATE TABLE")]


def test_turn_is_asked_for_again_where_a_change_of_tables_elsewhere_ended_the_attempt():
    node = Node()
    with one_at_a_time(node):
        assert len(node._attempts()) == 2
    assert node.asked[-1] == f"DROP TABLE IF EXISTS {TURN}"
