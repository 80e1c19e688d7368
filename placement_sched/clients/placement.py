# SPDX-License-Identifier: Apache-2.0
"""Client of a placement API, either OpenStack's or this service's.

A request can change only a single provider. The client reads the provider with its generation,
writes it with the same generation, and retries if another client changed it first.
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import orjson

from placement_sched.clients.session import RemoteService
from placement_sched.errors import ConcurrentUpdate, Invalid, NotFound
from placement_sched.model.aggregates import (
    ChangeResult,
    HostAggregate,
    HostMap,
    ProviderChange,
    ProviderTrait,
    SyncedAttribute,
)
from placement_sched.model.retry import MAX_ATTEMPTS, call_with_retries

#: Maximum seconds of the first pause before a retry. Further pauses are longer.
MAX_PAUSE = 0.05

#: The query parameters that select providers by an aggregate or a trait.
_PARAMETERS = {"aggregates": "member_of", "traits": "required"}

#: Hypervisors per request: nova's default maximum. With a lower [api] max_limit, nova returns
#: shorter pages without an error.
PAGE_SIZE = 1000


class TraitFile:
    """A file that records the traits that ``sync_traits`` added.

    ``placement`` is the URL of the placement API. A run writes the file before its first change,
    with the traits that it is going to add, and at its end. If the run was killed, the next run
    compares the file with placement.

    Raises :class:`Invalid` if the file has another format, if it was written for another placement
    API, and if it cannot be written.
    """

    def __init__(self, path: Path, placement: str) -> None:
        self._path, self._placement = path, placement
        #: The uuid of the host aggregate that required each added trait.
        self.aggregates: dict[ProviderTrait, str] = {}
        self._saved: Mapping[ProviderTrait, str] = {}
        try:
            document = orjson.loads(path.read_bytes())
            recorded_url, traits = document["placement"], document["traits"]
            self.aggregates = {
                (str(entry["provider"]), str(entry["trait"])): str(entry["aggregate"])
                for entry in traits
            }
        except FileNotFoundError:
            return
        except OSError as failure:
            raise Invalid(f"--state {path}: {failure.strerror}") from None
        except (ValueError, LookupError, TypeError):
            raise Invalid(f"--state {path}: the file is no record of sync_traits") from None
        if recorded_url != placement:
            raise Invalid(f"--state {path}: the record of {recorded_url}, not of {placement}")
        self._saved = dict(self.aggregates)

    def save(self, planned: Mapping[ProviderTrait, str] = MappingProxyType({})) -> None:
        """Write the record and ``planned`` additions, if they changed."""
        aggregates = {**planned, **self.aggregates}
        if aggregates == self._saved:
            return
        traits = [
            {"provider": provider, "trait": trait, "aggregate": aggregate}
            for (provider, trait), aggregate in sorted(aggregates.items())
        ]
        document = {"placement": self._placement, "traits": traits}
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            new.write_bytes(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))
            new.replace(self._path)
        except OSError as failure:
            raise Invalid(f"--state {self._path}: {failure.strerror}") from None
        self._saved = aggregates


@contextmanager
def open_trait_file(path: Path, placement: str) -> Iterator[TraitFile]:
    """Open a :class:`TraitFile`, and write it at the end of the block."""
    record = TraitFile(path, placement)
    try:
        yield record
    finally:
        record.save()


class RemotePlacement:
    """Client that changes the aggregates and traits of providers."""

    #: Maximum number of providers in a change. If placement fails, the run ends, and only the
    #: earlier changes are reported.
    batch = 1

    def __init__(
        self,
        service: RemoteService,
        record: TraitFile | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service, self._record, self._pause = service, record, pause
        #: Whether added traits are recorded. Without a record, no traits are removed.
        self.has_record = record is not None

    def map_providers(
        self, attribute: SyncedAttribute, names: Collection[str]
    ) -> Mapping[str, frozenset[str]]:
        """Map traits or aggregates to providers, with a request for each name."""
        path, parameter = "/resource_providers", _PARAMETERS[attribute]

        def read(name: str) -> list[str]:
            return self._service.read_list(
                path, "resource_providers", lambda item: str(item["uuid"]), **{parameter: name}
            )

        return {name: frozenset(read(name)) for name in sorted(names)}

    def find_existing_traits(self, names: Collection[str]) -> frozenset[str]:
        """Return the names of traits that exist."""
        # All traits are read, because ?name=in: would split a name with a comma.
        return frozenset(names).intersection(self._service.read_list("/traits", "traits", str))

    def create_trait(self, name: str) -> None:
        """Create a trait if it does not exist."""
        self._service.get_json(
            "PUT", f"/traits/{quote(name, safe='')}", accepted_statuses=(201, 204)
        )

    def find_existing_providers(self, providers: Collection[str]) -> frozenset[str]:
        """Return the uuids of providers that exist, with a request for each."""

        def is_existing(uuid: str) -> bool:
            path = f"/resource_providers/{quote(uuid, safe='')}"
            return self._service.get_json("GET", path, accepted_statuses=(200, 404)).status == 200

        return frozenset(filter(is_existing, sorted(providers)))

    def change(self, change: ProviderChange) -> ChangeResult:
        """Add an aggregate or trait to providers, or remove it, and record it."""
        is_trait, adding = change.attribute == "traits", change.adding
        # Without a record of traits, the entries are not kept.
        entries = self._record.aggregates if self._record and is_trait else {}
        changed, missing, failed = set(), set(), {}
        for uuid, aggregate in sorted(change.providers.items()):
            pair = (uuid, change.name)
            was_recorded = pair in entries
            if adding:
                # If placement fails, the trait may have been added although the response is lost.
                entries[pair] = aggregate
            try:
                attempt = partial(self._change, uuid, change)
                if call_with_retries(attempt, between=self._wait):
                    changed.add(uuid)
            except NotFound:
                missing.add(uuid)
            except (ConcurrentUpdate, Invalid) as failure:
                failed[uuid] = failure.detail
            belongs_in_record = (uuid in changed or was_recorded) if adding else uuid in failed
            if not belongs_in_record:
                entries.pop(pair, None)
        return ChangeResult(frozenset(changed), frozenset(missing), failed)

    def read_record(self) -> dict[ProviderTrait, str]:
        """Map the recorded traits to the host aggregates that require them."""
        return {} if self._record is None else dict(self._record.aggregates)

    def update_record(
        self,
        new_aggregates: Mapping[ProviderTrait, str],
        removed_pairs: Collection[ProviderTrait],
        planned: Mapping[ProviderTrait, str],
    ) -> None:
        """Update the record, with the pairs that the run is going to add."""
        if self._record is not None:
            self._record.aggregates.update(new_aggregates)
            for pair in removed_pairs:
                del self._record.aggregates[pair]
            self._record.save(planned)

    def _change(self, uuid: str, change: ProviderChange) -> bool:
        """Change a provider if needed, and return whether it was changed."""
        attribute, name, _, adding = change
        path = f"/resource_providers/{quote(uuid, safe='')}/{attribute}"
        read = self._service.get_json("GET", path, accepted_statuses=(200, 404))
        if read.status == 404:
            raise NotFound(read.text)
        with self._service.translate_shape_errors(f"/{attribute}"):
            document = read.document
            names = set(map(str, document[attribute]))
            generation = document["resource_provider_generation"]
        if (name in names) is adding:
            return False
        body = {"resource_provider_generation": generation, attribute: sorted(names ^ {name})}
        written = self._service.get_json(
            "PUT", path, body=body, accepted_statuses=(200, 400, 404, 409)
        )
        if written.status == 400:
            raise Invalid(written.text)
        if written.status != 200:
            raise ConcurrentUpdate(f"concurrent updates: {MAX_ATTEMPTS} attempts failed")
        return True

    def _wait(self, attempt: int) -> None:
        self._pause(random.uniform(0, MAX_PAUSE * attempt))  # noqa: S311 - jitter


def read_remote_hosts(service: RemoteService) -> HostMap:
    """Read host aggregates, hosts and compute nodes from a compute API."""
    aggregates = service.read_list("/os-aggregates", "aggregates", _parse_aggregate)
    service_hosts = service.read_list(
        "/os-services", "services", lambda item: str(item["host"]), binary="nova-compute"
    )
    nodes: dict[str, set[str]] = defaultdict(set)
    for uuid, host in _map_hypervisors(service).items():
        nodes[host].add(uuid)
    return HostMap(
        aggregates=tuple(sorted(aggregates, key=lambda aggregate: aggregate.id)),
        service_hosts=frozenset(service_hosts) | nodes.keys(),
        nodes={host: frozenset(uuids) for host, uuids in nodes.items()},
    )


def _map_hypervisors(service: RemoteService) -> dict[str, str]:
    """Map compute nodes to hosts, page by page until nothing is new."""
    path, hosts, marker = "/os-hypervisors/detail", dict[str, str](), dict[str, str]()

    def parse_node(document: Mapping[str, Any]) -> tuple[str, str]:
        return str(document["id"]), str(document["service"]["host"])

    while True:
        page = service.read_list(path, "hypervisors", parse_node, limit=PAGE_SIZE, **marker)
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
