"""Arrays that PostgreSQL is sent as one text; psycopg would make them of lists value by value."""

from collections.abc import Collection
from typing import Any

from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine, UserDefinedType

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


class ArrayText(UserDefinedType[str]):
    """The type of a parameter that is the text of an array."""

    cache_ok = True
    # Without its type PostgreSQL would read the text again for each row.
    render_bind_cast = True

    def __init__(self, item: TypeEngine[Any]) -> None:
        """Make the type of an array of such items."""
        self.item = item

    def get_col_spec(self, **_: object) -> str:
        """Return PostgreSQL's name of the type."""
        return f"{self.item.compile(_DIALECT)}[]"


def array_text(values: Collection[int] | Collection[str]) -> str:
    """Return the text of an array of numbers, or of strings."""
    if isinstance(next(iter(values), None), str):
        strings = [str(value).replace("\\", "\\\\").replace('"', '\\"') for value in values]
        return '{"' + '","'.join(strings) + '"}'
    return "{" + ",".join(map(str, values)) + "}"
