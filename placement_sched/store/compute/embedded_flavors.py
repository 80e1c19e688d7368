"""The flavors that instances were given, each text once, by its digest.

An instance keeps its flavor as it was, whatever becomes of the flavor. Most instances share a few,
and a flavor with its extra specs is longer than all else that is recorded of one. A text stays when
its last instance is gone.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

import orjson
from sqlalchemy import Connection, select

from placement_sched.db import sql
from placement_sched.db.tables import embedded_flavors
from placement_sched.model.document import Json

_COLUMNS = embedded_flavors.c


def digest_of(text: str) -> str:
    """Return the digest by which the text of a flavor is kept: its SHA-256 in hex."""
    return sha256(text.encode()).hexdigest()


def keep(connection: Connection, texts: Mapping[str, str]) -> None:
    """Keep texts, given by their digests, those that are not there."""
    # Asked first: an insert that finds a row there would lock it, and with it every other claim
    # of the same flavor, until this transaction ends.
    missing = texts.keys() - _texts(connection, texts, _COLUMNS.digest).keys()
    rows = [{"digest": digest, "flavor": texts[digest]} for digest in sorted(missing)]
    for batch in sql.batches(rows, sql.AT_ONCE):
        sql.insert_missing(connection, embedded_flavors, batch)


def keep_each(
    connection: Connection, flavors: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, str]:
    """Keep the flavors of instances, and return their digests; both by the instance's uuid."""
    given = {uuid: flavor for uuid, flavor in flavors.items() if flavor is not None}
    texts = {uuid: orjson.dumps(flavor).decode() for uuid, flavor in given.items()}
    digests = {uuid: digest_of(text) for uuid, text in texts.items()}
    if digests:
        keep(connection, {digests[uuid]: text for uuid, text in texts.items()})
    return digests


def read(connection: Connection, digests: Iterable[str]) -> dict[str, Json]:
    """Return the flavors of these digests: not to be changed, as instances share them."""
    texts = _texts(connection, digests, _COLUMNS.flavor)
    return {digest: _parsed(text) for digest, text in texts.items()}


def _texts(connection: Connection, digests: Iterable[str], column: Any) -> dict[str, str]:
    query = select(_COLUMNS.digest, column)
    rows = sql.rows_among(connection, query, _COLUMNS.digest, sorted(set(digests)))
    return dict(map(tuple, rows))


@lru_cache(maxsize=10_000)
def _parsed(text: str) -> Json:
    found: Json = orjson.loads(text)
    return found
