"""A placement asked over its API: OpenStack's or this one.

The API changes one provider at a time: read it with its generation, write it with that generation,
and begin again if another client was faster.
"""

import random
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from urllib.parse import quote

from placement_sched.errors import ConcurrentUpdate, Invalid, NotFound, ServiceFailed
from placement_sched.model.provider_sync import (
    Changed,
    ProviderChange,
    ProviderTrait,
    SyncedAttribute,
    TraitRecord,
)
from placement_sched.model.retry import retrying
from placement_sched.remote.service import RemoteService
from placement_sched.remote.trait_file import SeenProvider, TraitEntry, TraitFile

#: Maximum number of attempts to change a provider that other clients keep changing.
TRIES = 10
#: Seconds of the longest first pause before the next attempt; later pauses grow.
PAUSE = 0.05

#: The query parameter that selects the providers with an aggregate or trait.
_PARAMETERS = {"aggregates": "member_of", "traits": "required"}


class RemotePlacement:
    """Reads and changes providers' aggregates and traits; ``record`` has the traits it added."""

    #: A change is two requests, and recorded at once: if the run fails, what was done is recorded.
    batch = 1

    def __init__(
        self,
        service: RemoteService,
        record: TraitFile | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service, self._record, self._pause = service, record, pause
        self._seen: dict[str, SeenProvider] = {}
        #: Without a record of added traits, none is removed.
        self.has_record = record is not None

    def providers_with(
        self, attribute: SyncedAttribute, names: Collection[str]
    ) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers with each aggregate or trait, a request for each."""
        path, parameter = "/resource_providers", _PARAMETERS[attribute]

        def read(name: str) -> list[str]:
            return self._service.listed(
                path, "resource_providers", lambda each: str(each["uuid"]), **{parameter: name}
            )

        return {name: frozenset(read(name)) for name in sorted(names)}

    def known_traits(self, names: Collection[str]) -> frozenset[str]:
        """Return the names of traits that exist."""
        # All are read: ?name=in: would take a name with a comma apart.
        return frozenset(names).intersection(self._service.listed("/traits", "traits", str))

    def create_trait(self, name: str) -> None:
        """Create a trait if it does not exist."""
        self._service.ask("PUT", f"/traits/{quote(name, safe='')}", taken=(201, 204))

    def existing(self, providers: Collection[str]) -> frozenset[str]:
        """Return the uuids of providers that exist, a request for each."""
        return frozenset(self._look(providers))

    def change(self, change: ProviderChange) -> Changed:
        """Add an aggregate or trait to providers, or remove it, and record changes of traits."""
        done, missing, failed = set(), set(), {}
        for uuid in sorted(change.providers):
            try:
                attempt = partial(self._change, uuid, change)
                if retrying(attempt, TRIES, between=self._wait):
                    done.add(uuid)
            except NotFound:
                missing.add(uuid)
            except (ConcurrentUpdate, Invalid) as failure:
                failed[uuid] = failure.detail
        if self._record is not None and change.attribute == "traits":
            entries = dict(self._record.entries)
            seen: dict[str, SeenProvider] = {}
            if change.adding:
                # A service that fails now is reported by the next request.
                with suppress(ServiceFailed):
                    seen = self._look(done)
                for uuid in done:
                    before = entries.get((uuid, change.name), TraitEntry("")).seen
                    entry = TraitEntry(change.providers[uuid], seen.get(uuid, before))
                    entries[uuid, change.name] = entry
            else:
                for uuid in change.providers.keys() - failed.keys():
                    entries.pop((uuid, change.name), None)
            self._record.replace(entries)
        return Changed(frozenset(done), frozenset(missing), failed)

    def read_record(self) -> TraitRecord:
        """Return the recorded traits; each provider is looked at, a request for each."""
        if self._record is None:
            return TraitRecord()
        entries = self._record.entries
        self._seen = self._look({uuid for uuid, _ in entries})
        pairs = {
            pair: entry.aggregate
            for pair, entry in entries.items()
            if entry.is_about(self._seen.get(pair[0]))
        }
        return TraitRecord(pairs, frozenset(entries.keys() - pairs.keys()))

    def update_record(
        self,
        outlived: Collection[ProviderTrait],
        rebound: Mapping[ProviderTrait, str],
        forgotten: Collection[ProviderTrait],
    ) -> None:
        """Remove pairs from the record, record another aggregate for some, and all providers."""
        if self._record is not None:
            gone = {*outlived, *forgotten}
            entries = {
                pair: TraitEntry(rebound.get(pair, aggregate), self._seen.get(pair[0], seen))
                for pair, (aggregate, seen) in self._record.entries.items()
                if pair not in gone
            }
            self._record.replace(entries)

    def _look(self, providers: Collection[str]) -> dict[str, SeenProvider]:
        seen = {}
        for uuid in sorted(providers):
            path = f"/resource_providers/{quote(uuid, safe='')}"
            answer = self._service.ask("GET", path, taken=(200, 404))
            if answer.status == 404:
                continue
            with self._service.reading(path):
                modified = answer.headers.get("Last-Modified", "")
                seen[uuid] = SeenProvider(int(answer.document["generation"]), modified)
        return seen

    def _change(self, uuid: str, change: ProviderChange) -> bool:
        """Return whether anything was to change; raises :class:`NotFound`, :class:`Invalid`."""
        attribute, name, _, adding = change
        path = f"/resource_providers/{quote(uuid, safe='')}/{attribute}"
        read = self._service.ask("GET", path, taken=(200, 404))
        if read.status == 404:
            raise NotFound(read.text)
        with self._service.reading(f"/{attribute}"):
            document = read.document
            names = set(map(str, document[attribute]))
            generation = document["resource_provider_generation"]
        if (name in names) is adding:
            return False
        body = {"resource_provider_generation": generation, attribute: sorted(names ^ {name})}
        written = self._service.ask("PUT", path, body=body, taken=(200, 400, 404, 409))
        if written.status == 400:
            raise Invalid(written.text)
        if written.status != 200:
            raise ConcurrentUpdate(f"concurrent updates; gave up after {TRIES} attempts")
        return True

    def _wait(self, attempt: int) -> None:
        self._pause(random.uniform(0, PAUSE * attempt))  # noqa: S311 - jitter
