"""The capacity rule of ``model.inventory`` as an SQL condition; a property test ties the two."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Float,
    FromClause,
    and_,
    case,
    func,
    literal,
    or_,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from placement_sched.db.tables import allocations


class _as_read(FunctionElement[float]):  # noqa: N801 - an SQL function is named so
    """A FLOAT column's value as a client reads it: what Python computes with, SQL must too.

    On MariaDB placement's column is single precision: 1.9 is read as 1.9, but counts as 1.89999998
    in an expression, and ten times that is not 19.
    """

    type = Float()
    inherit_cache = True


@compiles(_as_read)
def _plain(element: _as_read, compiler: SQLCompiler, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_as_read, "mysql", "mariadb")
def _through_text(element: _as_read, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST(CAST({compiler.process(element.clauses, **options)} AS CHAR) AS DOUBLE)"


def used_of(provider_id: ColumnElement[int], class_id: ColumnElement[int]) -> ColumnElement[int]:
    """Return the sum of what is allocated of a class on a provider, read live from its index."""
    return (
        select(func.coalesce(func.sum(allocations.c.used), 0))
        .where(
            allocations.c.resource_provider_id == provider_id,
            allocations.c.resource_class_id == class_id,
        )
        .scalar_subquery()
    )


def has_room(
    owned: FromClause, amount: int, used: ColumnElement[int] | None = None
) -> ColumnElement[bool]:
    """Return whether ``amount`` more fits into the inventories ``owned`` (table or alias).

    ``used`` is a column with what is allocated of them; without, it is summed here.
    """
    columns = owned.c
    if used is None:
        used = used_of(columns.resource_provider_id, columns.resource_class_id)
    capacity = _capacity(owned)
    # An amount may be larger than the columns hold; it then has no room, but is no fault.
    asked = literal(amount, BigInteger)
    # Two detours say to PostgreSQL's planner what it cannot count, that most providers pass:
    # it takes `amount % step_size = 0` to hold for one row in 200 and `capacity >= ...` for one
    # in three, and then reads the whole cloud instead of stopping at the limit.
    return and_(
        columns.min_unit <= asked,
        columns.max_unit >= asked,
        or_(columns.step_size == 1, asked % columns.step_size == 0),
        case((capacity >= used + asked, 1), else_=0) != 0,
    )


def overfull(owned: FromClause) -> ColumnElement[bool]:
    """Return whether more is allocated of the inventories ``owned`` than they have."""
    used = used_of(owned.c.resource_provider_id, owned.c.resource_class_id)
    return used > _capacity(owned)


def _capacity(owned: FromClause) -> ColumnElement[float]:
    columns = owned.c
    return (columns.total - columns.reserved) * _as_read(columns.allocation_ratio)
