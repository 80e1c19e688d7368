# SPDX-License-Identifier: Apache-2.0
"""Lists of nova and glance, and facts that versions or policies hide."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from placement_sched.clients.api_reader import (
    ApiReader,
    Listing,
    Microversion,
    MissingRight,
    MissingRoute,
    format_version,
)
from placement_sched.clients.cloud_documents import (
    ServerReading,
    read_aggregate,
    read_flavor,
    read_hypervisor,
    read_image,
    read_server,
    read_server_group,
    read_service,
)
from placement_sched.model.aggregates import HostAggregate, ServerGroup
from placement_sched.model.compute_node import COMPUTE_BINARY, Service
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import StoredImage

T = TypeVar("T")

#: The best microversions: the newest supported, and for hypervisors the last with totals.
COMPUTE, _HYPERVISORS = (2, 100), (2, 87)
#: Facts of nova that an older microversion lacks, with the first microversion that shows each.
_FACTS_BY_VERSION: Mapping[str, Microversion] = {
    "server_group_rules": (2, 64),
    "down_cells": (2, 69),
    "pinned_zones": (2, 96),
    "image_properties": (2, 98),
    "scheduler_hints": (2, 100),
}
#: The API policy rule of each route, if an error does not name a rule.
_RULES: Mapping[str, str] = {
    "/servers/detail": "os_compute_api:servers:detail:get_all_tenants",
    "/os-hypervisors/detail": "os_compute_api:os-hypervisors:list-detail",
    "/os-services": "os_compute_api:os-services:list",
    "/os-aggregates": "os_compute_api:os-aggregates:index",
    "/os-server-groups": "os_compute_api:os-server-groups:index",
    "/os-migrations": "os_compute_api:os-migrations:index",
    "/flavors/detail": "os_compute_api:flavors",
}
_FLAVOR_ACCESS, _SHOW = "os_compute_api:os-flavor-access", "os_compute_api:servers:show"
#: The rules that hide fields of servers and flavors.
_ATTRIBUTES = "os_compute_api:os-extended-server-attributes"
_EXTRA_SPECS: Mapping[str, str] = {
    "extra_specs": "os_compute_api:os-flavor-extra-specs:index",
    "server_extra_specs": "os_compute_api:servers:show:flavor-extra-specs",
}
#: Maximum number of migrations that are read, newest first, to find the migrations of consumers.
_MAX_MIGRATIONS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudLists:
    """The lists of nova and glance.

    ``reports`` are reports of hosts without ratios. ``projects`` are the projects with access to a
    private flavor, by flavor id.
    """

    reports: tuple[Json, ...] = ()
    services: tuple[Service, ...] = ()
    aggregates: tuple[HostAggregate, ...] = ()
    server_groups: tuple[ServerGroup, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    images: tuple[StoredImage, ...] = ()
    servers: Mapping[str, ServerReading]
    projects: Mapping[str, frozenset[str]]


class ListReader:
    """Reader of the lists of nova and glance.

    ``missing`` maps facts that are missing to the reason.
    """

    def __init__(self, compute: ApiReader, image: ApiReader, missing: dict[str, str]) -> None:
        self._compute, self._image, self._missing = compute, image, missing

    def note_missing_versions(self) -> None:
        """Note the facts that nova's newest microversion does not show."""
        newest = self._compute.newest
        for fact, version in _FACTS_BY_VERSION.items():
            if newest < version:
                self._missing[fact] = (
                    f"nova {format_version(version)} shows it, and this nova has at most "
                    f"{format_version(newest)}"
                )

    def read_lists(self, run: Callable[[Sequence[Callable[[], Any]]], list[Any]]) -> CloudLists:
        """Read the lists with ``run``, which calls several functions at a time."""
        reports, services, aggregates, groups, flavors, images, servers = run(
            [
                lambda: self._list(
                    "/os-hypervisors/detail", "hypervisors", read_hypervisor, best=_HYPERVISORS
                ),
                self._list_services,
                lambda: self._read("/os-aggregates", "aggregates", read_aggregate),
                lambda: self._tolerate("server_groups", self._list_server_groups),
                self._list_flavors,
                lambda: self._tolerate("images", self._list_images),
                self.list_servers,
            ]
        )
        private = [str(flavor.flavorid) for flavor in flavors if not flavor.is_public]
        access = run([partial(self._read_access, name) for name in private])
        return CloudLists(
            reports=reports,
            services=services,
            aggregates=aggregates,
            server_groups=groups,
            flavors=flavors,
            images=images,
            servers=servers,
            projects=dict(zip(private, access, strict=True)),
        )

    def list_servers(self, **params: str) -> dict[str, ServerReading]:
        """List the servers of all projects by uuid."""

        def read(document: Json) -> ServerReading:
            # Of a cell that is down, nova shows only some fields (2.69).
            if "flavor" in document:
                if "OS-EXT-SRV-ATTR:host" not in document:
                    raise MissingRight([_ATTRIBUTES], "compute")
                if "extra_specs" not in document["flavor"]:
                    self._note_hidden("server_extra_specs")
            return read_server(document)

        params = {"all_tenants": "true", **params}
        servers = self._list("/servers/detail", "servers", read, params)
        return {server.record.uuid: server for server in servers}

    def find_server(self, uuid: str) -> ServerReading | None:
        """Find a server that lists do not show, such as a soft-deleted server."""
        with suppress(MissingRight):
            return self._compute.find(
                f"/servers/{uuid}",
                lambda document: read_server(document["server"]),
                rule=_SHOW,
                version=self._compute.choose(COMPUTE),
            )
        return None

    def find_migrations(self, uuids: Collection[str]) -> dict[str, str]:
        """Map the migrations among consumers to their servers.

        The newest migrations are read first, until all consumers are found.
        """

        def is_enough(documents: Sequence[Json]) -> bool:
            uuids_read = {document.get("uuid") for document in documents}
            return uuids_read >= set(uuids) or len(documents) >= _MAX_MIGRATIONS

        path = "/os-migrations"
        documents = self._tolerate(
            "migrations",
            lambda: self._compute.read_pages(
                Listing(
                    path=path,
                    key="migrations",
                    rule=_RULES[path],
                    version=self._compute.choose(COMPUTE),
                    marker="uuid",
                ),
                is_enough=is_enough,
            ),
        )
        with self._compute.translate_shape_errors(path):
            pairs = {str(item["uuid"]): str(item["instance_uuid"]) for item in documents}
        return {uuid: pairs[uuid] for uuid in uuids if uuid in pairs}

    def _list_services(self) -> tuple[Service, ...]:
        path = "/os-services"
        documents = self._read(path, "services", dict, {"binary": COMPUTE_BINARY})
        # Of a cell that is down, nova shows only the names of services (2.69).
        reported = [item for item in documents if "updated_at" in item]
        away = [item for item in documents if "updated_at" not in item]
        if away:
            hosts = ", ".join(sorted(str(item.get("host")) for item in away)[:5])
            self._missing["down_cells"] = f"cells do not answer: {len(away)} hosts, such as {hosts}"
        with self._compute.translate_shape_errors(path):
            return tuple(map(read_service, reported))

    def _list_server_groups(self) -> tuple[ServerGroup, ...]:
        path, key = "/os-server-groups", "server_groups"
        return self._list(path, key, read_server_group, {"all_projects": "true"}, offset=True)

    def _list_flavors(self) -> tuple[Flavor, ...]:
        def read(document: Json) -> Flavor:
            if "extra_specs" not in document:
                self._note_hidden("extra_specs")
            return read_flavor(document)

        return self._list("/flavors/detail", "flavors", read, {"is_public": "None"})

    def _read_access(self, flavorid: str) -> frozenset[str]:
        path = f"/flavors/{quote(flavorid, safe='')}/os-flavor-access"
        projects = self._tolerate(
            "flavor_access",
            lambda: self._compute.find(
                path,
                lambda document: [str(item["tenant_id"]) for item in document["flavor_access"]],
                rule=_FLAVOR_ACCESS,
                version=self._compute.choose(COMPUTE),
            ),
        )
        return frozenset(projects or ())

    def _list_images(self) -> tuple[StoredImage, ...]:
        path = "/images" if self._image.url.endswith("/v2") else "/v2/images"
        documents = self._image.read_pages(Listing(path=path, key="images", rule="get_images"))
        with self._image.translate_shape_errors(path):
            return tuple(map(read_image, documents))

    def _read(
        self, path: str, key: str, read: Callable[[Any], T], params: Mapping[str, str] | None = None
    ) -> tuple[T, ...]:
        """Read a list of nova without pages."""
        version = self._compute.choose(COMPUTE)
        return self._compute.read(
            path,
            lambda document: tuple(read(item) for item in document[key]),
            params,
            rule=_RULES[path],
            version=version,
        )

    def _list(
        self,
        path: str,
        key: str,
        read: Callable[[Any], T],
        params: Mapping[str, str] | None = None,
        *,
        best: Microversion = COMPUTE,
        offset: bool = False,
    ) -> tuple[T, ...]:
        """Read all pages of a list of nova."""
        version = self._compute.choose(best)
        listing = Listing(path=path, key=key, rule=_RULES[path], version=version, has_offset=offset)
        documents = self._compute.read_pages(listing, params)
        with self._compute.translate_shape_errors(path):
            return tuple(map(read, documents))

    def _tolerate(self, fact: str, work: Callable[[], Iterable[T] | None]) -> tuple[T, ...]:
        """Return the result of ``work``, or nothing if a service hides the fact."""
        try:
            return tuple(work() or ())
        except MissingRight as failure:
            self._missing[fact] = f"the policy rule {failure.rules[0]} does not allow it"
        except MissingRoute as failure:
            self._missing[fact] = failure.detail
        return ()

    def _note_hidden(self, fact: str) -> None:
        self._missing[fact] = f"the policy rule {_EXTRA_SPECS[fact]} does not allow it"
