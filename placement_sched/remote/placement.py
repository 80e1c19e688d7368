"""A placement asked over its API: OpenStack's or this one.

The API changes one provider at a time: read it with its generation, write it with that generation,
and begin again where another client was faster.
"""

import random
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from placement_sched.errors import ConcurrentUpdate, ServiceFailed
from placement_sched.model.placement.sync import Changed, ProviderTrait, TraitRecord
from placement_sched.model.retrying import retrying
from placement_sched.remote.service import RemoteService
from placement_sched.remote.trait_file import SeenProvider, TraitFile

#: Aggregates are written with a generation since 1.19 (placement API, "Microversion history").
VERSION, SINCE = "1.19", "Rocky"
#: How often one provider is tried that others keep changing.
TRIES = 10
#: Seconds of the longest first pause before it is tried again; later ones grow.
PAUSE = 0.05

_Change = Callable[[frozenset[str]], frozenset[str]]


class RemotePlacement:
    """Reads and changes providers' aggregates and traits; ``record`` keeps what traits it put."""

    #: Each is two requests, and noted at once: whatever happens next, what was done is known.
    batch = 1

    def __init__(
        self,
        service: RemoteService,
        record: TraitFile | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = service
        self._record = record
        self._pause = pause
        self._seen: dict[str, SeenProvider] = {}

    def members(self, aggregates: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers in each of these aggregates, a request for each."""
        return {uuid: self._providers(member_of=uuid) for uuid in sorted(aggregates)}

    def join(self, aggregate: str, providers: Collection[str]) -> Changed:
        """Put providers into an aggregate."""
        return self._each(providers, "aggregates", lambda found: found | {aggregate})

    def leave(self, aggregate: str, providers: Collection[str]) -> Changed:
        """Take providers out of an aggregate."""
        return self._each(providers, "aggregates", lambda found: found - {aggregate})

    def known_traits(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these traits there are."""
        # All are read: ?name=in: would take a name with a comma apart.
        return frozenset(names).intersection(self._service.listed("/traits", "traits", str))

    def create_trait(self, name: str) -> None:
        """Make a trait, unless it is there."""
        self._service.ask("PUT", f"/traits/{quote(name, safe='')}", taken=(201, 204))

    def carriers(self, traits: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers that have each of these traits, a request for each."""
        return {name: self._providers(required=name) for name in sorted(traits)}

    def existing(self, providers: Collection[str]) -> frozenset[str]:
        """Return which of these providers there are, a request for each."""
        return frozenset(self._look(providers))

    def put_on(self, trait: str, providers: Mapping[str, str]) -> Changed:
        """Put a trait on providers, and note it in the record once it is there."""
        changed = self._each(providers, "traits", lambda found: found | {trait})
        if self._record is not None:
            seen: dict[str, SeenProvider] = {}
            # A service that fails now is reported by the next request.
            with suppress(ServiceFailed):
                seen = self._look(changed.done)
            self._record.remember({(uuid, trait): providers[uuid] for uuid in changed.done}, seen)
        return changed

    def take_off(self, trait: str, providers: Collection[str]) -> Changed:
        """Take a trait from providers, and take it out of the record."""
        changed = self._each(providers, "traits", lambda found: found - {trait})
        if self._record is not None:
            over = set(providers) - changed.failed.keys()
            self._record.forget({(uuid, trait) for uuid in over})
        return changed

    @property
    def remembers(self) -> bool:
        """Whether there is a record, without which nothing is taken off."""
        return self._record is not None

    def put_there(self) -> TraitRecord:
        """Return what was put where; each provider is looked at, a request for each."""
        if self._record is None:
            return TraitRecord()
        pairs, before = self._record.pairs, self._record.seen
        self._seen = self._look({uuid for uuid, _ in pairs})
        outlived = frozenset(
            pair
            for pair in pairs
            if pair[0] not in self._seen
            or (pair in before and not before[pair].followed_by(self._seen[pair[0]]))
        )
        left = {pair: aggregate for pair, aggregate in pairs.items() if pair not in outlived}
        return TraitRecord(left, outlived)

    def settle(self, outlived: Collection[ProviderTrait]) -> None:
        """Remove deleted providers from the record; update the others."""
        if self._record is not None:
            self._record.forget(outlived)
            self._record.see(self._seen)

    def remember(self, pairs: Mapping[ProviderTrait, str]) -> None:
        """Note for these pairs of the record another aggregate."""
        if self._record is not None:
            self._record.remember(pairs)

    def forget(self, pairs: Collection[ProviderTrait]) -> None:
        """Take these pairs out of the record."""
        if self._record is not None:
            self._record.forget(pairs)

    def _look(self, providers: Collection[str]) -> dict[str, SeenProvider]:
        found = {}
        for uuid in sorted(providers):
            path = f"/resource_providers/{quote(uuid, safe='')}"
            answer = self._service.ask("GET", path, taken=(200, 404))
            if answer.status == 404:
                continue
            with self._service.reading(path):
                modified = answer.headers.get("Last-Modified", "")
                found[uuid] = SeenProvider(int(answer.document["generation"]), modified)
        return found

    def _providers(self, **params: str) -> frozenset[str]:
        def uuid_of(one: Mapping[str, Any]) -> str:
            return str(one["uuid"])

        path = "/resource_providers"
        return frozenset(self._service.listed(path, "resource_providers", uuid_of, **params))

    def _each(self, providers: Collection[str], what: str, change: _Change) -> Changed:
        outcomes = {uuid: self._change(uuid, what, change) for uuid in sorted(providers)}
        return Changed(
            frozenset(uuid for uuid, outcome in outcomes.items() if outcome is True),
            frozenset(uuid for uuid, outcome in outcomes.items() if outcome is None),
            {uuid: outcome for uuid, outcome in outcomes.items() if isinstance(outcome, str)},
        )

    def _change(self, uuid: str, what: str, change: _Change) -> bool | str | None:
        """Return whether anything was to change (None: no such provider), or why it failed."""
        path = f"/resource_providers/{quote(uuid, safe='')}/{what}"

        def once() -> bool | str | None:
            read = self._service.ask("GET", path, taken=(200, 404))
            if read.status == 404:
                return None
            with self._service.reading(f"/{what}"):
                found = frozenset(map(str, read.document[what]))
            wanted = change(found)
            if wanted == found:
                return False
            body = {
                "resource_provider_generation": read.document["resource_provider_generation"],
                what: sorted(wanted),
            }
            written = self._service.ask("PUT", path, body=body, taken=(200, 400, 404, 409))
            if written.status == 400:
                return written.text
            if written.status != 200:
                raise ConcurrentUpdate(f"concurrent updates; gave up after {TRIES} attempts")
            return True

        def pause(attempt: int) -> None:
            self._pause(random.uniform(0, PAUSE * attempt))  # noqa: S311 - jitter

        try:
            return retrying(once, TRIES, between=pause)
        except ConcurrentUpdate as failure:
            return failure.detail
