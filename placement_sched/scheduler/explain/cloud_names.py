"""Puts the names of the cloud into what would have to change: aggregates, traits, services."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import os_traits

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.explanation import RejectReason
from placement_sched.model.names import listed
from placement_sched.model.verdict import Remedy
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.explain.sentences import traits_named

_DISABLED = [os_traits.COMPUTE_STATUS_DISABLED]


@dataclass(frozen=True, slots=True)
class CloudNames:
    """The host aggregates by uuid, and which aggregates each of some providers is in.

    ``busy`` are those of the providers whose hosts have instances.
    """

    aggregates: Mapping[str, HostAggregate]
    memberships: Mapping[str, frozenset[str]]
    busy: frozenset[str]

    @classmethod
    def of(cls, run: Run, roots: Collection[str]) -> "CloudNames":
        """Return the names that changes on these trees may need, in two statements at most."""
        every = {one.uuid: one for one in run.cloud.host_aggregates()}
        if not roots:
            return cls(every, {}, frozenset())
        zoned = any(one.availability_zone for one in every.values())
        busy = run.cloud.nodes_with_instances(roots) if zoned else frozenset()
        return cls(every, run.cloud.provider_aggregates(roots), busy)

    def with_names(self, root: str, reason: RejectReason) -> RejectReason:
        """Return a reason of the search whose changes name what they are about."""
        changes = [one for change in reason.changes for one in self._named(root, change)]
        return replace(reason, changes=tuple(changes))

    def _named(self, root: str, change: Remedy) -> Iterator[Remedy]:
        if change.action == "remove_trait" and change.values["traits"] == _DISABLED:
            yield Remedy(
                "enable_service", "enable its compute service", {"steps": ["enable_service"]}
            )
        elif change.action == "drop_constraint" and change.values["detail"] == f"!{_DISABLED[0]}":
            return  # no request may be free of it
        elif change.action == "leave_aggregate":
            provider, uuids = change.values.get("provider"), change.values["aggregates"]
            words = f"remove {provider or 'it'} from aggregate {listed(map(self.name, uuids))}"
            yield replace(change, words=words, values=self._values(change, uuids))
        elif change.action == "ask_traits":
            if needed := self.needed(change.values["aggregates"]):
                words = f"ask for {traits_named(needed)}"
                yield Remedy("ask_traits", words, {"traits": list(needed)})
        elif change.action == "join_aggregate":
            provider, uuids = change.values.get("provider"), change.values["aggregates"]
            if provider is None:
                uuids = [uuid for uuid in uuids if self._may_join(root, uuid)]
            if uuids:
                words = f"add {provider or 'it'} to aggregate "
                words += " or ".join(map(self.name, uuids))
                yield replace(change, words=words, values=self._values(change, uuids))
        elif change.values.get("constraint") == "member_of":
            uuids = change.values["detail"].removeprefix("in:").split(",")
            words = f"ask without being confined to aggregate {' or '.join(map(self.name, uuids))}"
            yield replace(change, words=words)
        else:
            yield change

    def _may_join(self, root: str, uuid: str) -> bool:
        """Return whether a host may join an aggregate.

        It is in one zone at most, and does not leave the default zone with its instances.
        """
        zone = self._zone(uuid)
        zones = {self._zone(other) for other in self.memberships.get(root, ())} - {None}
        return zone is None or zones == {zone} or (not zones and root not in self.busy)

    def _zone(self, uuid: str) -> str | None:
        known = self.aggregates.get(uuid)
        return known.availability_zone if known else None

    def _values(self, change: Remedy, uuids: Sequence[str]) -> dict[str, Any]:
        return {**change.values, "aggregates": self._shown(uuids)}

    def needed(self, uuids: Collection[str]) -> tuple[str, ...]:
        """Return the traits that a request needs for all these aggregates, none if one has none."""
        known = [self.aggregates[uuid] for uuid in uuids if uuid in self.aggregates]
        if len(known) < len(uuids) or not all(one.reserving_traits for one in known):
            return ()
        return tuple(sorted({trait for one in known for trait in one.reserving_traits}))

    def name(self, uuid: str) -> str:
        """Return how an aggregate is called: by its name, where it is a host aggregate."""
        known = self.aggregates.get(uuid)
        return known.name if known else uuid

    def _shown(self, uuids: Collection[str]) -> list[dict[str, str]]:
        return [{"uuid": uuid, "name": self.name(uuid)} for uuid in uuids]
