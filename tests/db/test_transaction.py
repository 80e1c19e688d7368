# SPDX-License-Identifier: Apache-2.0
"""Statements that are too large for a database are an error of the request."""

import pytest
from sqlalchemy import literal, select, text

from placement_sched.errors import TooComplex

pytestmark = pytest.mark.all_databases


def test_too_long_statement_is_not_an_outage(database):
    columns = ", ".join(str(number) for number in range(5_000))
    tables = ", ".join(f"resource_classes t{number}" for number in range(70))
    with (
        pytest.raises(TooComplex, match="too large for one SQL statement"),
        database.read() as connection,
    ):
        connection.execute(text(f"SELECT {columns} FROM {tables} WHERE 1 = 0"))


@pytest.mark.slow
def test_too_many_parameters_are_not_an_outage(database):
    if database.url.get_backend_name() == "mysql":
        pytest.skip("its driver sends parameters in the text, of any number")
    with pytest.raises(TooComplex), database.read() as connection:
        connection.execute(select(literal(1).in_(range(300_000))))
