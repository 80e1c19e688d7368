"""A server group: instances that belong near to each other, or apart."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from placement_sched.model.document import NovaObject
from placement_sched.model.naming import canonical

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
#: What a group may ask of its members' hosts, in nova's words.
POLICIES = (AFFINITY, ANTI_AFFINITY, "soft-affinity", "soft-anti-affinity")
#: The one rule that there is: how many members of an anti-affinity group one host may have.
MOST_PER_HOST = "max_server_per_host"
_PLAIN = ("uuid", "name", "project_id", "user_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGroup(NovaObject):
    """A group as kept, and as plugins see it: nova's InstanceGroup attribute names.

    ``members`` are the uuids of its instances, ``hosts`` the names of the hosts that these are on;
    a list of groups leaves them out. A group that a request describes need not have a uuid.
    """

    policy: str
    rules: Mapping[str, int] = field(default_factory=dict)
    uuid: str | None = None
    name: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    members: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the group that a request's JSON object describes."""
        return cls(
            **{name: document.get(name) for name in _PLAIN},
            policy=document["policy"],
            rules=document.get("rules") or {},
            members=tuple(map(canonical, document.get("members") or ())),
            hosts=tuple(document.get("hosts") or ()),
        )

    def as_document(self) -> dict[str, Any]:
        """Return the JSON object of which :meth:`from_document` makes this group again."""
        return {
            **{name: getattr(self, name) for name in (*_PLAIN, "policy")},
            "rules": dict(self.rules),
            "members": list(self.members),
            "hosts": list(self.hosts),
        }

    @property
    def policies(self) -> list[str]:
        """Return the policy as a list, as old plugins of nova read it."""
        return [self.policy]

    @property
    def is_strict(self) -> bool:
        """Return whether the policy rejects hosts, rather than lowers their weight."""
        return not self.policy.startswith("soft-")
