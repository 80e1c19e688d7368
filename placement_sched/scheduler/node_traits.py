"""Which traits all compute nodes have: remembered, and right across processes."""

import secrets

from placement_sched.db.connection import Connection
from placement_sched.store import node_traits

#: More traits than request filters ask for.
LIMIT = 100


class NodeTraitCache:
    """This process's memory of which traits the root providers of all enabled nodes have.

    Each use reads the fingerprint of what the answer follows from, one statement, and looks at all
    nodes again only when it is another. What is remembered is an answer and the fingerprint of the
    same moment: a fingerprint read before might come back later, as a trait that is put on and
    taken off again leaves the same providers, and would then stand for the answer between.
    """

    def __init__(self) -> None:
        # Drawn by lot, so that no change goes unseen by the same chance in every process.
        self._salt = 1 + secrets.randbelow(node_traits.SALTS - 1)
        self._seen: dict[str, node_traits.Coverage] = {}

    def all_have(self, connection: Connection, trait: str) -> bool:
        """Return whether the root provider of every node whose service is enabled has a trait."""
        seen = self._seen.get(trait)
        if seen and seen.fingerprint == node_traits.fingerprint(connection, trait, self._salt):
            return seen.all_have
        found = node_traits.coverage(connection, trait, self._salt)
        if found.fingerprint is not None:
            if len(self._seen) >= LIMIT:
                self._seen.clear()
            self._seen[trait] = found
        return found.all_have
