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
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
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

#: Maximum number of attempts to change a provider that other clients keep changing.
TRIES = 10
#: Maximum seconds of the first pause before the next attempt; later pauses are longer.
PAUSE = 0.05

#: The query parameter that selects the providers with an aggregate or trait.
_PARAMETERS = {"aggregates": "member_of", "traits": "required"}

#: Hypervisors per request: nova's default maximum. With a lower [api] max_limit nova silently
#: returns fewer.
PAGE = 1000


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

    ``placement`` is the URL of the placement API that the record is for. Raises :class:`Invalid`
    for another file format, for another placement API, and if the file cannot be written.
    """

    def __init__(self, path: Path, placement: str) -> None:
        self._path, self._placement = path, placement
        self.entries: Mapping[ProviderTrait, TraitEntry] = {}
        with _translate_os_errors(path):
            try:
                text = path.read_bytes()
            except FileNotFoundError:
                return
        try:
            # Format 1 had a document per line, the first with the format.
            document = orjson.loads(text.partition(b"\n")[0] or text)
            number, about = document["format"], document["placement"]
            if number == _FORMAT:
                self.entries = dict(map(_parse_entry, document["traits"]))
        except (ValueError, LookupError, TypeError):
            raise Invalid(f"--state {path}: the file is no record of sync_traits") from None
        if number != _FORMAT:
            raise Invalid(f"--state {path}: a record of format {number}, not of {_FORMAT}")
        if about != placement:
            raise Invalid(f"--state {path}: the record of {about}, not of {placement}")

    def replace(self, entries: Mapping[ProviderTrait, TraitEntry]) -> None:
        """Replace the entries of the file, if they have changed."""
        if entries == self.entries:
            return
        traits = [
            {"provider": provider, "trait": trait, "aggregate": entry.aggregate}
            | (entry.seen._asdict() if entry.seen else {})
            for (provider, trait), entry in sorted(entries.items())
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
        self.entries = entries


@contextmanager
def open_trait_file(path: Path, placement: str) -> Iterator[TraitFile]:
    """Open the record in a file exclusively.

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
        yield TraitFile(path, placement)


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

    #: Each change is recorded immediately, so that a failed run leaves a complete record.
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
                path, "resource_providers", lambda each: str(each["uuid"]), **{parameter: name}
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
        changed, missing, failed = set(), set(), {}
        for uuid in sorted(change.providers):
            try:
                attempt = partial(self._change, uuid, change)
                if retrying(attempt, TRIES, between=self._wait):
                    changed.add(uuid)
            except NotFound:
                missing.add(uuid)
            except (ConcurrentUpdate, Invalid) as failure:
                failed[uuid] = failure.detail
        if self._record is not None and change.attribute == "traits":
            entries = dict(self._record.entries)
            versions: dict[str, ProviderVersion] = {}
            if change.adding:
                # The next request reports a failing service.
                with suppress(ServiceFailed):
                    versions = self._read_versions(changed)
                for uuid in changed:
                    previous = entries.get((uuid, change.name), TraitEntry("")).seen
                    entry = TraitEntry(change.providers[uuid], versions.get(uuid, previous))
                    entries[uuid, change.name] = entry
            else:
                for uuid in change.providers.keys() - failed.keys():
                    entries.pop((uuid, change.name), None)
            self._record.replace(entries)
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
    ) -> None:
        """Remove pairs from the record, and update aggregates and provider versions."""
        if self._record is not None:
            gone = {*outlived, *forgotten}
            entries = {
                pair: TraitEntry(rebound.get(pair, aggregate), self._versions.get(pair[0], version))
                for pair, (aggregate, version) in self._record.entries.items()
                if pair not in gone
            }
            self._record.replace(entries)

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
            raise ConcurrentUpdate(f"concurrent updates; gave up after {TRIES} attempts")
        return True

    def _wait(self, attempt: int) -> None:
        self._pause(random.uniform(0, PAUSE * attempt))  # noqa: S311 - jitter


def read_remote_hosts(service: RemoteService) -> HostMap:
    """Read a compute API's aggregates and hosts, or raise :class:`ServiceFailed`."""
    aggregates = service.listed("/os-aggregates", "aggregates", _parse_aggregate)
    service_hosts = service.listed(
        "/os-services", "services", lambda each: str(each["host"]), binary="nova-compute"
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
        page = service.listed(path, "hypervisors", _parse_node, limit=PAGE, **marker)
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
