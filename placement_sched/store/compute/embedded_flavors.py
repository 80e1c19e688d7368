"""The flavors that instances were given, each text once, by its digest.

An instance keeps its flavor as it was, whatever becomes of the flavor. Most instances share a few,
and a flavor with its extra specs is longer than all else that is recorded of one. What follows nova
keeps flavors so; a claim writes its flavor with the instance, in the same statement. A text stays
when its last instance is gone.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import orjson
from sqlalchemy import Connection, select

from placement_sched.db import sql
from placement_sched.db.tables import embedded_flavors
from placement_sched.model.document import Json

_COLUMNS = embedded_flavors.c
#: The flavors that this process has read, by digest, and how many it keeps.
_READ: dict[str, Json] = {}
_MOST = 10_000


def digest_of(text: str) -> str:
    """Return the digest by which the text of a flavor is kept: its SHA-256 in hex."""
    return sha256(text.encode()).hexdigest()


def keep(connection: Connection, texts: Mapping[str, str]) -> None:
    """Keep texts, given by their digests, those that are not there."""
    # Asked first: an insert that finds a row there would lock it, and so keep every other writer
    # of the same flavor waiting until this transaction ends.
    missing = texts.keys() - _texts(connection, texts, _COLUMNS.digest).keys()
    rows = [{"digest": digest, "flavor": texts[digest]} for digest in sorted(missing)]
    for batch in sql.batches(rows, sql.AT_ONCE):
        sql.insert_missing(connection, embedded_flavors, batch)


def read(connection: Connection, digests: Iterable[str]) -> dict[str, Json]:
    """Return the flavors of these digests: not to be changed, as instances share them."""
    wanted = set(digests)
    # A digest never means another text, so that what was read once is right for ever.
    found = {one: known for one in wanted if (known := _READ.get(one)) is not None}
    if missing := wanted - found.keys():
        texts = _texts(connection, missing, _COLUMNS.flavor)
        new = {digest: orjson.loads(text) for digest, text in texts.items()}
        if len(_READ) + len(new) > _MOST:
            _READ.clear()
        _READ.update(new)
        found |= new
    return found


def _texts(connection: Connection, digests: Iterable[str], column: Any) -> dict[str, str]:
    query = select(_COLUMNS.digest, column)
    rows = sql.rows_among(connection, query, _COLUMNS.digest, sorted(set(digests)))
    return dict(map(tuple, rows))
