# SPDX-License-Identifier: Apache-2.0
"""Access of commands to the scheduler: over HTTP, or inside the command.

A scheduler inside the command uses the configured database.
"""

import argparse
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import orjson
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException, EndpointNotFound
from requests import ConnectTimeout

from placement_sched.api.scheduler import decisions, hosts, instances, request_schema, scheduling
from placement_sched.api.scheduler.host_views import show_host
from placement_sched.api.scheduler.policy_views import list_policies, show_policy
from placement_sched.api.validation import Schemas, check_texts
from placement_sched.api.versions import Version
from placement_sched.app import make_services
from placement_sched.cli.arguments import EmbeddedParser, add_output, parse_seconds
from placement_sched.cli.database import check_file_exists, hide_password, read_command_settings
from placement_sched.cli.login import add_login_arguments, make_adapters
from placement_sched.clients.session import (
    RemoteService,
    ServiceResponse,
    iterate_exception_chain,
    silence_library_logs,
)
from placement_sched.errors import Error, Invalid, NoValidHost, ServiceFailed, Unavailable
from placement_sched.extensions.what_if.plan_runs import change_move
from placement_sched.extensions.what_if.routes import capacity, plan_runs, plans
from placement_sched.model.document import Json
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.compute import flavors, host_aggregates, server_groups

#: Default timeout of a request, in seconds. Longer than the server waits for locks.
TIMEOUT = 120
#: Prefix of the message about a document that does not match its schema.
_PREFIX = "JSON does not validate"
_ANY_STATUS = range(1000)
#: Path of an API, which may be at the end of the server's URL in a service catalogue.
_API_PATH = re.compile(r"/(placement|scheduler(/v1)?)$")

#: Schemas and function of each request, by its method and path. ``*`` is a name.
_ROUTES: dict[str, tuple[Schemas | None, Callable[..., Json]]] = {
    "POST capacity": (capacity.CAPACITY, capacity.count_capacity),
    "GET decisions": (decisions.LIST, decisions.list_decisions),
    "GET decisions/*": (None, decisions.show_decision),
    "POST decisions/*/replay": (decisions.REPLAY, decisions.replay_decision),
    "POST explain": (request_schema.EXPLAIN, scheduling.explain_request),
    "POST failover_capacity": (capacity.FAILOVER_CAPACITY, capacity.report_failover),
    "GET instances/*": (None, instances.show_instance),
    "GET hosts": (None, hosts.search_hosts),
    "GET hosts/*": (None, show_host),
    "POST plan": (plans.PLAN, plans.plan_changes),
    "POST plan_runs": (plan_runs.CREATE_RUN, plan_runs.create_run),
    "GET plan_runs": (plan_runs.LIST_RUNS, plan_runs.list_runs),
    "GET plan_runs/*": (None, plan_runs.show_run),
    "PUT plan_runs/*": (plan_runs.CHANGE_RUN, plan_runs.change_run),
    "PUT plan_runs/*/moves/*": (plan_runs.CHANGE_MOVE, change_move),
    "GET policies": (None, lambda scheduler: {"policies": list_policies(scheduler)}),
    "GET policies/*": (None, show_policy),
    "POST rebalance": (plans.REBALANCE, plans.suggest_moves),
    "POST select_destinations": (request_schema.SELECT, scheduling.select_hosts),
}
#: Paths of lists whose documents have ``next`` (the marker of the next page), not links.
_PAGED = (("decisions",), ("plan_runs",))
#: A query string, as pairs or a mapping.
Query = Mapping[str, str] | Sequence[tuple[str, str]]


class SchedulerApi(ABC):
    """Scheduler of a command, which returns the JSON of ``/scheduler/v1``.

    Its methods raise the errors of the scheduler, such as :class:`Invalid` or :class:`NotFound`.
    """

    #: URL of the server, or of the database without its password.
    place: str

    @abstractmethod
    def map_aggregate_names(self) -> dict[str, str]:
        """Map uuids of host aggregates to names."""

    @abstractmethod
    def list_flavor_names(self) -> list[str]:
        """Return the names of stored flavors."""

    @abstractmethod
    def _call(
        self, method: str, *path: str, query: Query | None = None, body: Json | None = None
    ) -> Json:
        """Return the response to a request."""

    def get(self, *path: str, query: Query | None = None) -> Json:
        """Return the resource or list at a path below ``/scheduler/v1``.

        In a list of decisions or plan runs, ``next`` is the marker of the next page, or None.
        """
        return self._call("GET", *path, query=query)

    def post(self, *path: str, body: Json) -> Json:
        """Run the action at a path with ``body``, and return its response.

        Raises :class:`NoValidHost`, with the funnel in ``extra``, if no host passes.
        """
        return self._call("POST", *path, body=body)

    def put(self, *path: str, body: Json) -> Json:
        """Change the plan run or the move at a path, and return it."""
        return self._call("PUT", *path, body=body)


class DirectScheduler(SchedulerApi):
    """Scheduler inside the command, which uses the configured database."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.place = hide_password(scheduler.database)

    def map_aggregate_names(self) -> dict[str, str]:
        """Map uuids of host aggregates to names."""
        with self._scheduler.database.read() as connection:
            return {row.uuid: row.name for row in host_aggregates.read_snapshot(connection)}

    def has_server_group(self, uuid: str) -> bool:
        """Return whether a server group is stored."""
        with self._scheduler.database.read() as connection:
            return bool(server_groups.find_existing_uuids(connection, [uuid]))

    def list_flavor_names(self) -> list[str]:
        """Return the names of stored flavors."""
        with self._scheduler.database.read() as connection:
            return [flavor.name for flavor in flavors.list_flavors(connection)]

    def _call(
        self, method: str, *path: str, query: Query | None = None, body: Json | None = None
    ) -> Json:
        route = "/".join("*" if number % 2 else step for number, step in enumerate(path))
        schemas, function = _ROUTES[f"{method} {route}"]
        arguments = [argument for argument in (query, body) if argument is not None]
        if schemas is not None:
            _check(schemas, dict(arguments[0]))
        document = function(self._scheduler, *path[1::2], *arguments)
        return dict(orjson.loads(orjson.dumps(document)))  # times as texts, as over HTTP


def _check(schemas: Schemas, body: Json) -> None:
    check_texts(body, _PREFIX)
    schema = schemas.find_schema(Version(1, 0))
    if schema is not None:
        schema.check(body, _PREFIX)


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for reaching the API server: its URL, login and timeout."""
    if isinstance(parser, EmbeddedParser):
        return
    server = parser.add_argument_group("server")
    server.add_argument(
        "--url", help="use this server (http://127.0.0.1:8778) instead of the configured database"
    )
    add_login_arguments(server)
    server.add_argument(
        "--timeout",
        type=parse_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help="timeout of requests to the server (default: %(default)s)",
    )


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a server and of the output."""
    add_server_arguments(parser)
    add_output(parser)


class SchedulerClient(SchedulerApi):
    """Client of the scheduler API of a server.

    Methods raise the errors of the server. ``timeout`` is in seconds.
    """

    def __init__(self, adapter: Adapter, timeout: float = TIMEOUT) -> None:
        with suppress(ClientException):
            if not _find_endpoint(adapter) and _find_endpoint(adapter, service_type="placement"):
                # The catalogue has only the Placement API of the server.
                adapter.service_type = "placement"
        # A repeated selection could claim twice, and the server may close an idle connection at the
        # moment of the next request.
        adapter.connect_retries = adapter.status_code_retries = 0
        adapter.additional_headers["Connection"] = "close"
        self._adapter, self._timeout = adapter, timeout
        self._service = RemoteService(adapter, "scheduler", timeout)
        self.place = _API_PATH.sub("", self._service.url)

    def map_aggregate_names(self) -> dict[str, str]:
        """Map uuids of host aggregates to names.

        If the caller may not list aggregates, there are no names.
        """
        compute = RemoteService(self._adapter, "compute", self._timeout)
        path = f"{self.place}/compute/v2.1/os-aggregates"
        with suppress(ServiceFailed):
            return dict(compute.read_list(path, "aggregates", itemgetter("uuid", "name")))
        return {}

    def list_flavor_names(self) -> list[str]:
        """Return the names of stored flavors."""
        compute = RemoteService(self._adapter, "compute")
        path = f"{self.place}/compute/v2.1/flavors"
        return compute.read_list(path, "flavors", itemgetter("name"))

    def _call(
        self, method: str, *path: str, query: Query | None = None, body: Json | None = None
    ) -> Json:
        if body is not None:
            check_texts(body, _PREFIX)
        if not {".", ".."}.isdisjoint(path):
            raise Invalid(f"{path[-1]!r} is not allowed in a URL")
        try:
            # keystoneauth would replace "%" in a base address, but not in a complete URL.
            url = "/".join([self.place, "scheduler/v1", *(quote(step, safe="") for step in path)])
            url += f"?{urlencode(query)}" if query else ""
        except UnicodeEncodeError as error:
            raise Invalid(f"{error.object!r} is not valid UTF-8") from None
        try:
            response = self._service.get_json(method, url, body=body, accepted_statuses=_ANY_STATUS)
        except ServiceFailed as failure:
            reasons = list(iterate_exception_chain(failure))
            kinds = set(map(type, reasons))
            is_sent = not any("handshake" in str(reason) for reason in reasons)
            if TimeoutError not in kinds or ConnectTimeout in kinds or not is_sent:
                raise
            raise Unavailable(
                f"{self.place} did not answer within {self._timeout:g} s and may still process "
                "the request: increase --timeout SECONDS"
            ) from None
        if not 200 <= response.status < 300:
            raise _build_error(response, self.place)
        if isinstance(document := response.document, dict):
            if path in _PAGED and "links" in document:
                following = [
                    parse_qs(urlsplit(link["href"]).query) for link in document.pop("links")
                ]
                document["next"] = following[0]["marker"][-1] if following else None
            return document
        raise Error(
            f"{self.place} did not answer with JSON. Check that it is a placement-sched server"
        )


def _find_endpoint(adapter: Adapter, **criteria: Any) -> str | None:
    try:
        return adapter.get_endpoint(**criteria)
    except EndpointNotFound:
        return None


@contextmanager
def open_scheduler(arguments: argparse.Namespace) -> Iterator[SchedulerApi]:
    """Yield the scheduler that the arguments select, and close it at the end."""
    if client := getattr(arguments, "scheduler", None):  # of the openstack command
        yield client
        return
    for adapter in make_adapters(arguments, {"scheduler": ("--url", arguments.url)}).values():
        with silence_library_logs():
            yield SchedulerClient(adapter, arguments.timeout)
        return
    # For a single request, filling the provider cache would take longer than the search.
    services = make_services(read_command_settings(arguments), caches=ProcessCaches())
    try:
        check_file_exists(services.database, "query a server with --url or --os-cloud")
        services.ready()
        yield DirectScheduler(services.scheduler)
    finally:
        services.scheduler.notifier.close()
        services.database.dispose()


def _build_error(response: ServiceResponse, base: str) -> Error:
    try:
        error = response.document["errors"][0]
        detail, code = error["detail"], error.get("code", "")
    except (LookupError, TypeError):
        return Error(f"unexpected response from {base}: {response.status} {response.reason}")
    if code == NoValidHost.code:
        return NoValidHost(detail, extra={"funnel": error.get("funnel")})
    request_id = error.get("request_id")
    suffix = f" ({response.status}{f', {request_id}' if request_id else ''})"
    fault = error.get("fault")
    is_fault = isinstance(fault, dict) and {"problem", "path"} <= fault.keys()
    return Error(f"{detail}{suffix}", fault={**fault, "rest": suffix} if is_fault else None)
