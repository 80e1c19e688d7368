"""Keeps the server groups recorded here as nova's API database has them."""

from collections.abc import Mapping
from dataclasses import replace

from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import POLICIES, ServerGroup
from placement_sched.nova.databases import server_groups as nova_groups
from placement_sched.nova.sync.cells import NovaCells
from placement_sched.nova.sync.findings import Account
from placement_sched.schemas.formats import DocumentError
from placement_sched.store.compute import server_groups

_NOUN = "server groups"
_FIELDS = ("name", "policy", "rules", "project_id", "user_id")


class GroupUpkeep:
    """Keeps server groups in step; one for each process.

    Their members are instances, whose records name the group.
    """

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._seen: object = None
        self._newest_member: int | None = None

    def everything(self, account: Account, *, dry: bool = False) -> None:
        """Compare all groups, and record them as nova has them; raises :class:`NovaAway`."""
        with self._cells.read_api() as connection:
            seen = nova_groups.fingerprint(connection)
        self._settle(account, dry=dry)
        if not dry:
            self._seen = seen

    def follow(self, account: Account) -> tuple[str, ...]:
        """Do so where nova's tables of groups have changed; raises :class:`NovaAway`.

        Returns the uuids of the instances that joined a group since the last time.
        """
        with self._cells.read_api() as connection:
            seen = nova_groups.fingerprint(connection)
            newest = nova_groups.newest_member(connection)
            before = newest if self._newest_member is None else self._newest_member
            joined = nova_groups.members_since(connection, before) if newest > before else ()
        if seen != self._seen:
            self._settle(account, dry=False)
            self._seen = seen
        self._newest_member = newest
        return joined

    def _settle(self, account: Account, *, dry: bool) -> None:
        with self._database.read() as connection:
            before = {one.uuid or "": one for one in server_groups.every(connection)}
        with self._cells.read_api() as connection:
            found = nova_groups.groups(connection)
        theirs = self._fitting(found, account)
        differing = {uuid: one for uuid, one in theirs.items() if _unlike(before.get(uuid), one)}
        gone = before.keys() - found.keys()
        account.note_read(_NOUN, len(found))
        for uuid, one in differing.items():
            fields = _unlike(before.get(uuid), one)
            account.differs(_NOUN, one.name or uuid, fields, new=uuid not in before)
        for uuid in gone:
            account.gone(_NOUN, before[uuid].name or uuid)
        if dry or not (differing or gone):
            return
        now = self._cells.clock()

        def write(connection: Connection) -> None:
            server_groups.lock_many(connection, [*gone, *differing])
            for uuid in sorted(gone):
                server_groups.remove(connection, uuid)
            server_groups.put(connection, list(differing.values()), now)

        self._database.write(write)

    def _fitting(
        self, found: Mapping[str, ServerGroup | DocumentError], account: Account
    ) -> dict[str, ServerGroup]:
        fitting = {}
        for uuid, one in found.items():
            if isinstance(one, DocumentError):
                account.misfit(f"server group {uuid}", one.at_path().detail)
            elif one.policy not in POLICIES:
                account.misfit(
                    f"server group {one.name} ({uuid})",
                    f"its policy {one.policy!r} is not one of {', '.join(POLICIES)}",
                )
            else:
                place = f"server group {uuid}"
                name = self._cells.shown(one.name or "", place, "name", account)
                texts = {"project_id": one.project_id, "user_id": one.user_id}
                if self._cells.is_left_out(place, texts, account):
                    continue
                fitting[uuid] = replace(one, name=name or one.name)
        return fitting


def _unlike(before: ServerGroup | None, one: ServerGroup) -> tuple[str, ...]:
    """Return the fields in which a group differs; all of them, of a new one."""
    return tuple(
        name for name in _FIELDS if before is None or getattr(before, name) != getattr(one, name)
    )
