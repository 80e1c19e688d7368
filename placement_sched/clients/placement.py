# SPDX-License-Identifier: Apache-2.0
"""Client of a placement API, OpenStack's or this service's.

The API changes a single provider per request. The client reads the provider with its generation,
writes it with the same generation, and retries if another client was faster.
"""

import fcntl
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from placement_sched.clients.session import RemoteService
from placement_sched.errors import ConcurrentUpdate, Conflict, Invalid, NotFound, ServiceFailed
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.provider_sync import (
    ChangeResult,
    HostMap,
    ProviderChange,
    ProviderTrait,
    SyncedAttribute,
    TraitRecord,
)
from placement_sched.model.retry import retrying

_FORMAT = 2

#: Minimum seconds between two writes of the record while a run changes traits.
SAVE_INTERVAL = 1

#: Maximum number of attempts to change a provider that other clients keep changing.
MAX_ATTEMPTS = 10
#: Maximum seconds of the first pause before the next attempt; later pauses are longer.
MAX_PAUSE = 0.05

#: The query parameter that selects the providers with an aggregate or trait.
_PARAMETERS = {"aggregates": "member_of", "traits": "required"}

#: Hypervisors per request: nova's default maximum. With a lower [api] max_limit nova silently
#: returns fewer.
PAGE_SIZE = 1000


class ProviderVersion(NamedTuple):
    """The version of a provider, which identifies recreated providers.

    The generation only increases. Each change of the generation also changes ``modified``, the time
    of the last change.
    """

    generation: int
    modified: str


class TraitEntry(NamedTuple):
    """The aggregate that a trait was added for, and the provider's last version, if any."""

    aggregate: str
    seen: ProviderVersion | None = None

    def is_about(self, now: ProviderVersion | None) -> bool:
        """Return whether the provider's current version can belong to this entry.

        A recreated provider is recognised until its generation exceeds the recorded generation.
        """
        if now is None or self.seen is None:
            return now is not None
        return now.generation > self.seen.generation or now == self.seen


class TraitFile:
    """The record of added traits, with their providers and aggregates, in a file.

    ``placement`` is the URL of the placement API that the record is for, ``clock`` a monotonic
    clock. Traits that a run is going to add are recorded before the first change, and changes are
    written at most every :data:`SAVE_INTERVAL` seconds. A run that ends without a last write leaves
    planned traits and removed traits in the file. The next run compares both with placement.

    Raises :class:`Invalid` for another file format, for another placement API, and if the file
    cannot be written.
    """

    def __init__(
        self, path: Path, placement: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._placement, self._clock = path, placement, clock
        self.entries: dict[ProviderTrait, TraitEntry] = {}
        #: Entries of traits that this run has not begun to add.
        self.planned: dict[ProviderTrait, TraitEntry] = {}
        self._is_saved, self._saved_at = True, float("-inf")
        with _translate_os_errors(path):
            try:
                text = path.read_bytes()
            except FileNotFoundError:
                return
        try:
            document = orjson.loads(text)
            number, about = document["format"], document["placement"]
            if number == _FORMAT:
                self.entries = dict(map(_parse_entry, document["traits"]))
        except (ValueError, LookupError, TypeError):
            raise Invalid(f"--state {path}: the file is no record of sync_traits") from None
        if number != _FORMAT:
            raise Invalid(f"--state {path}: a record of format {number}, not of {_FORMAT}")
        if about != placement:
            raise Invalid(f"--state {path}: the record of {about}, not of {placement}")

    def replace(
        self,
        entries: Mapping[ProviderTrait, TraitEntry],
        planned: Mapping[ProviderTrait, TraitEntry] = MappingProxyType({}),
    ) -> None:
        """Replace the entries, plan further entries and write the file if it differs."""
        self._is_saved = self._is_saved and {**planned, **entries} == self.entries
        self.entries, self.planned = dict(entries), dict(planned)
        self.save()

    def begin(self, pair: ProviderTrait) -> bool:
        """Return whether a trait is planned, and make its entry valid from now on."""
        entry = self.planned.pop(pair, None)
        if entry is not None:
            self.entries[pair] = entry
        return entry is not None

    def put(self, pair: ProviderTrait, entry: TraitEntry | None) -> None:
        """Replace or, for None, remove an entry, and write the file if a write is due."""
        if self.entries.get(pair) == entry:
            return
        self._is_saved = False
        if entry is None:
            del self.entries[pair]
        else:
            self.entries[pair] = entry
        if self._clock() - self._saved_at >= SAVE_INTERVAL:
            self.save()

    def save(self) -> None:
        """Write the file atomically, unless it is up to date."""
        if self._is_saved:
            return
        traits = [
            {"provider": provider, "trait": trait, "aggregate": entry.aggregate}
            | (entry.seen._asdict() if entry.seen else {})
            for (provider, trait), entry in sorted({**self.planned, **self.entries}.items())
        ]
        document = {"format": _FORMAT, "placement": self._placement, "traits": traits}
        folder, prefix = self._path.parent, f".{self._path.name}."
        with (
            _translate_os_errors(self._path),
            NamedTemporaryFile(dir=folder, prefix=prefix, delete=False) as file,
        ):
            try:
                file.write(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(self._path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        self._is_saved, self._saved_at = True, self._clock()

    def close(self) -> None:
        """Write the final entries, without traits that were planned and never tried."""
        self._is_saved = self._is_saved and not self.planned
        self.planned.clear()
        self.save()


@contextmanager
def open_trait_file(
    path: Path, placement: str, clock: Callable[[], float] = time.monotonic
) -> Iterator[TraitFile]:
    """Open the record in a file exclusively, and write it at the end.

    The file is created at the first change. Raises as :class:`TraitFile`, and :class:`Conflict`
    while another process has the file open.
    """
    lock = path.with_name(f".{path.name}.lock")
    with _translate_os_errors(path):
        lock_file = lock.open("w")
    with lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"--state {path}: another sync_traits uses it") from None
        with closing(TraitFile(path, placement, clock)) as record:
            yield record


def _parse_entry(document: Mapping[str, Any]) -> tuple[ProviderTrait, TraitEntry]:
    provider = None
    # The provider may have been unreachable when its trait was recorded.
    if "generation" in document:
        provider = ProviderVersion(int(document["generation"]), str(document["modified"]))
    pair = (str(document["provider"]), str(document["trait"]))
    return pair, TraitEntry(str(document["aggregate"]), provider)


@contextmanager
def _translate_os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        raise Invalid(f"--state {path}: {failure.strerror}") from None


class RemotePlacement:
    """Client for the aggregates and traits of providers, with a record of added traits."""

    #: A failure of placement ends a run, and the changes of the batches before are reported.
    batch = 1

    def __init__(
        self,
        service: RemoteService,
        record: TraitFile | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service, self._record, self._pause = service, record, pause
        self._versions: dict[str, ProviderVersion] = {}
        #: Traits are removed only with a record of added traits.
        self.has_record = record is not None

    def providers_with(
        self, attribute: SyncedAttribute, names: Collection[str]
    ) -> Mapping[str, frozenset[str]]:
        """Return the providers that have each of these traits or aggregates.

        Sends an HTTP request for each name.
        """
        path, parameter = "/resource_providers", _PARAMETERS[attribute]

        def read(name: str) -> list[str]:
            return self._service.listed(
                path, "resource_providers", lambda item: str(item["uuid"]), **{parameter: name}
            )

        return {name: frozenset(read(name)) for name in sorted(names)}

    def known_traits(self, names: Collection[str]) -> frozenset[str]:
        """Return the names of existing traits."""
        # All traits are read, because ?name=in: would split a name with a comma.
        return frozenset(names).intersection(self._service.listed("/traits", "traits", str))

    def create_trait(self, name: str) -> None:
        """Create a trait if it does not exist."""
        self._service.get_json("PUT", f"/traits/{quote(name, safe='')}", taken=(201, 204))

    def existing(self, providers: Collection[str]) -> frozenset[str]:
        """Return the uuids of existing providers, with a request for each."""
        return frozenset(self._read_versions(providers))

    def change(self, change: ProviderChange) -> ChangeResult:
        """Add or remove an aggregate or trait of providers, and record changes of traits."""
        record = self._record if change.attribute == "traits" else None
        changed, missing, failed = set(), set(), {}
        for uuid, aggregate in sorted(change.providers.items()):
            pair = (uuid, change.name)
            is_planned = record is not None and record.begin(pair)
            try:
                attempt = partial(self._change, uuid, change)
                if retrying(attempt, MAX_ATTEMPTS, between=self._wait):
                    changed.add(uuid)
            except NotFound:
                missing.add(uuid)
            except (ConcurrentUpdate, Invalid) as failure:
                failed[uuid] = failure.detail
            if record is None:
                continue
            if change.adding and uuid in changed:
                previous = record.entries.get(pair, TraitEntry("")).seen
                # The next request reports a failing service.
                with suppress(ServiceFailed):
                    previous = self._read_versions([uuid]).get(uuid, previous)
                record.put(pair, TraitEntry(aggregate, previous))
            elif is_planned or not (change.adding or uuid in failed):
                record.put(pair, None)
        return ChangeResult(frozenset(changed), frozenset(missing), failed)

    def read_record(self) -> TraitRecord:
        """Return the recorded traits, with a request for each provider."""
        if self._record is None:
            return TraitRecord()
        entries = self._record.entries
        self._versions = self._read_versions({uuid for uuid, _ in entries})
        pairs = {
            pair: entry.aggregate
            for pair, entry in entries.items()
            if entry.is_about(self._versions.get(pair[0]))
        }
        return TraitRecord(pairs, frozenset(entries.keys() - pairs.keys()))

    def update_record(
        self,
        outlived: Collection[ProviderTrait],
        rebound: Mapping[ProviderTrait, str],
        forgotten: Collection[ProviderTrait],
        planned: Mapping[ProviderTrait, str],
    ) -> None:
        """Remove pairs from the record, update aggregates and versions, and plan additions."""
        if self._record is not None:
            removed = {*outlived, *forgotten}
            entries = {
                pair: TraitEntry(rebound.get(pair, aggregate), self._versions.get(pair[0], version))
                for pair, (aggregate, version) in self._record.entries.items()
                if pair not in removed
            }
            additions = {
                pair: TraitEntry(aggregate)
                for pair, aggregate in planned.items()
                if pair not in entries
            }
            self._record.replace(entries, additions)

    def _read_versions(self, providers: Collection[str]) -> dict[str, ProviderVersion]:
        versions = {}
        for uuid in sorted(providers):
            path = f"/resource_providers/{quote(uuid, safe='')}"
            answer = self._service.get_json("GET", path, taken=(200, 404))
            if answer.status == 404:
                continue
            with self._service.reading(path):
                modified = answer.headers.get("Last-Modified", "")
                versions[uuid] = ProviderVersion(int(answer.document["generation"]), modified)
        return versions

    def _change(self, uuid: str, change: ProviderChange) -> bool:
        """Change a provider if needed, or raise :class:`NotFound` or :class:`Invalid`."""
        attribute, name, _, adding = change
        path = f"/resource_providers/{quote(uuid, safe='')}/{attribute}"
        read = self._service.get_json("GET", path, taken=(200, 404))
        if read.status == 404:
            raise NotFound(read.text)
        with self._service.reading(f"/{attribute}"):
            document = read.document
            names = set(map(str, document[attribute]))
            generation = document["resource_provider_generation"]
        if (name in names) is adding:
            return False
        body = {"resource_provider_generation": generation, attribute: sorted(names ^ {name})}
        written = self._service.get_json("PUT", path, body=body, taken=(200, 400, 404, 409))
        if written.status == 400:
            raise Invalid(written.text)
        if written.status != 200:
            raise ConcurrentUpdate(f"concurrent updates; gave up after {MAX_ATTEMPTS} attempts")
        return True

    def _wait(self, attempt: int) -> None:
        self._pause(random.uniform(0, MAX_PAUSE * attempt))  # noqa: S311 - jitter


def read_remote_hosts(service: RemoteService) -> HostMap:
    """Read a compute API's aggregates and hosts, or raise :class:`ServiceFailed`."""
    aggregates = service.listed("/os-aggregates", "aggregates", _parse_aggregate)
    service_hosts = service.listed(
        "/os-services", "services", lambda item: str(item["host"]), binary="nova-compute"
    )
    nodes: dict[str, set[str]] = defaultdict(set)
    for uuid, host in _hypervisors(service).items():
        nodes[host].add(uuid)
    return HostMap(
        aggregates=tuple(sorted(aggregates, key=lambda aggregate: aggregate.id)),
        known=frozenset(service_hosts) | nodes.keys(),
        nodes={host: frozenset(uuids) for host, uuids in nodes.items()},
    )


def _hypervisors(service: RemoteService) -> dict[str, str]:
    """Return the hosts of compute nodes by node uuid, read in pages.

    A short page may be followed by another, so that reading ends at a page without new nodes. nova
    and this service return all other lists completely.
    """
    path, hosts, marker = "/os-hypervisors/detail", dict[str, str](), dict[str, str]()
    while True:
        page = service.listed(path, "hypervisors", _parse_node, limit=PAGE_SIZE, **marker)
        if hosts.keys() >= dict(page).keys():
            return hosts
        hosts = dict(page) | hosts
        marker = {"marker": page[-1][0]}


def _parse_aggregate(document: Mapping[str, Any]) -> HostAggregate:
    return HostAggregate(
        id=int(document["id"]),
        uuid=str(document["uuid"]),
        name=str(document["name"]),
        hosts=frozenset(map(str, document["hosts"])),
        metadata={str(key): str(value) for key, value in document["metadata"].items()},
    )


def _parse_node(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document["id"]), str(document["service"]["host"])
