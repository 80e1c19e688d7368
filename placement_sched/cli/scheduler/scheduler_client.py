# SPDX-License-Identifier: Apache-2.0
"""Access of commands to the scheduler: over HTTP, or inside the command.

A scheduler inside the command uses the configured database.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import orjson
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException, EndpointNotFound
from requests import ConnectTimeout

from placement_sched.api.scheduler import capacity, decisions, hosts, plan, request_schema
from placement_sched.api.validation import Schemas, check_texts
from placement_sched.api.versions import Version
from placement_sched.app import make_services
from placement_sched.cli.arguments import EmbeddedParser, add_output
from placement_sched.cli.database import check_file_exists, url_without_password
from placement_sched.cli.login import add_login_arguments, make_adapters
from placement_sched.clients.session import (
    RemoteService,
    ServiceResponse,
    exception_chain,
    silence_library_logs,
)
from placement_sched.errors import Error, Invalid, NoValidHost, ServiceFailed, Unavailable
from placement_sched.model.document import Json
from placement_sched.operations.plan_runs import change_move
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.host_views import show_host as host_shown
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.policy_views import list_policies, show_policy
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.compute import flavors, host_aggregates

#: Maximum timeout of a request, in seconds: a day.
_MAX_TIMEOUT = 86_400
#: Default timeout of a request, in seconds; longer than the server waits for locks.
TIMEOUT = 120
#: Prefix of the message about a document that does not match its schema.
_PREFIX = "JSON does not validate"
_ANY_STATUS = range(1000)
#: Path of an API of the server, which its URL in a catalogue may have.
_API_PATH = re.compile(r"/(placement|scheduler(/v1)?)$")

#: Schemas and handler of the body of each POST to ``/scheduler/v1``.
_ACTIONS = {
    "capacity": (capacity.CAPACITY, capacity.answer),
    "explain": (request_schema.EXPLAIN, request_schema.explain),
    "failover_capacity": (capacity.FAILOVER_CAPACITY, capacity.answer_failover),
    "plan": (request_schema.PLAN, request_schema.plan),
    "plan_runs": (plan.CREATE_RUN, plan.create_run),
    "rebalance": (request_schema.REBALANCE, request_schema.rebalance),
    "select_destinations": (request_schema.SELECT, request_schema.select),
}
_SHOWN = {
    "decisions": decisions.show_decision,
    "hosts": host_shown,
    "plan_runs": plan.show_run,
    "policies": show_policy,
}


class DirectScheduler:
    """Scheduler on the configured database, which returns the JSON of ``/scheduler/v1``.

    Its methods raise the errors of the scheduler, such as :class:`Invalid`, :class:`NoValidHost`.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: URL of the database without its password.
        self.place = url_without_password(scheduler.database)
        self.policies = partial(list_policies, scheduler)

    def aggregate_names(self) -> dict[str, str]:
        """Map uuids of host aggregates to names."""
        with self._scheduler.database.read() as connection:
            return {row.uuid: row.name for row in host_aggregates.all_aggregates(connection)}

    def flavor_names(self) -> list[str]:
        """Return the names of stored flavors."""
        with self._scheduler.database.read() as connection:
            return [flavor.name for flavor in flavors.all_flavors(connection)]

    def post(self, action: str, body: Json) -> Json:
        """Run an action on ``body``, and return its response.

        Raises :class:`NoValidHost`, with the funnel in ``extra``, if no host passes.
        """
        schemas, answer = _ACTIONS[action]
        _check(schemas, body)
        return answer(self._scheduler, body)

    def show(self, collection: str, name: str) -> Json:
        """Return a decision, host or policy.

        Raises :class:`NotFound` if it does not exist.
        """
        return _as_json(_SHOWN[collection](self._scheduler, name))

    def decisions(self, query: Mapping[str, str]) -> Json:
        """Return recorded decisions and the marker of the ``next`` page."""
        _check(decisions.LIST, dict(query))
        return _as_json(decisions.list_decisions(self._scheduler, query))

    def hosts(self, query: Sequence[tuple[str, str]]) -> Json:
        """Return the hosts that match the pairs of a query string."""
        return _as_json(hosts.search_hosts(self._scheduler, query))

    def replay(self, uuid: str, body: Json) -> Json:
        """Return a recorded decision, its result now and the differences."""
        _check(decisions.REPLAY, body)
        return _as_json(decisions.replay_decision(self._scheduler, uuid, body))

    def plan_runs(self, query: Mapping[str, str]) -> Json:
        """Return runs of plans and the marker of the ``next`` page."""
        _check(plan.LIST_RUNS, dict(query))
        return _as_json(plan.list_runs(self._scheduler, query))

    def change_run(self, uuid: str, body: Json) -> Json:
        """Change the state of a run, or become its executor, and return it."""
        _check(plan.CHANGE_RUN, body)
        return _as_json(plan.change_run(self._scheduler, uuid, body))

    def change_move(self, uuid: str, instance: str, body: Json) -> Json:
        """Change the state of a move of a run, and return it with its ``rejection``."""
        _check(plan.CHANGE_MOVE, body)
        return _as_json(change_move(self._scheduler, uuid, instance, body))


def _as_json(document: Json) -> Json:
    """Convert a document to JSON as over HTTP, with times as texts."""
    return dict(orjson.loads(orjson.dumps(document)))


def _check(schemas: Schemas, body: Json) -> None:
    check_texts(body, _PREFIX)
    schema = schemas.at(Version(1, 0))
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
        type=_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help="timeout of requests to the server (default: %(default)s)",
    )


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a server and of the output."""
    add_server_arguments(parser)
    add_output(parser)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= _MAX_TIMEOUT:
        raise argparse.ArgumentTypeError(
            f"expected a number of seconds up to {_MAX_TIMEOUT}, not {text!r}"
        )
    return seconds


class SchedulerClient:
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
        #: URL of the server, without the path of an API.
        self.place = _API_PATH.sub("", self._service.place)

    def post(self, action: str, body: Json) -> Json:
        """Run an action on ``body``, and return its response.

        Raises :class:`NoValidHost`, with the funnel in ``extra``, if no host passes.
        """
        check_texts(body, _PREFIX)
        return self._ask(action, body=body)

    def show(self, collection: str, name: str) -> Json:
        """Return a decision, host or policy."""
        return self._ask(collection, name)

    def policies(self) -> list[Json]:
        """Return all scheduling policies."""
        policies: list[Json] = self._ask("policies")["policies"]
        return policies

    def decisions(self, query: Mapping[str, str]) -> Json:
        """Return recorded decisions and the marker of the ``next`` page."""
        return self._page("decisions", query)

    def hosts(self, query: Sequence[tuple[str, str]]) -> Json:
        """Return the hosts that match the pairs of a query string."""
        return self._ask("hosts", query=query)

    def replay(self, uuid: str, body: Json) -> Json:
        """Return a recorded decision, its result now and the differences."""
        return self._ask("decisions", uuid, "replay", body=body)

    def plan_runs(self, query: Mapping[str, str]) -> Json:
        """Return runs of plans and the marker of the ``next`` page."""
        return self._page("plan_runs", query)

    def change_run(self, uuid: str, body: Json) -> Json:
        """Change the state of a run, or become its executor, and return it."""
        return self._ask("plan_runs", uuid, body=body, method="PUT")

    def change_move(self, uuid: str, instance: str, body: Json) -> Json:
        """Change the state of a move of a run, and return it with its ``rejection``."""
        check_texts(body, _PREFIX)
        return self._ask("plan_runs", uuid, "moves", instance, body=body, method="PUT")

    def aggregate_names(self) -> dict[str, str]:
        """Map uuids of host aggregates to names.

        If the caller may not list aggregates, there are no names.
        """
        compute = RemoteService(self._adapter, "compute", self._timeout)
        path = f"{self.place}/compute/v2.1/os-aggregates"
        with suppress(ServiceFailed):
            return dict(compute.listed(path, "aggregates", itemgetter("uuid", "name")))
        return {}

    def flavor_names(self) -> list[str]:
        """Return the names of stored flavors."""
        compute = RemoteService(self._adapter, "compute")
        path = f"{self.place}/compute/v2.1/flavors"
        return compute.listed(path, "flavors", itemgetter("name"))

    def _page(self, collection: str, query: Mapping[str, str]) -> Json:
        page = self._ask(collection, query=list(query.items()))
        following = [parse_qs(urlsplit(link["href"]).query) for link in page.pop("links")]
        return {**page, "next": following[0]["marker"][-1] if following else None}

    def _ask(
        self,
        *path: str,
        query: Sequence[tuple[str, str]] = (),
        body: Json | None = None,
        method: str | None = None,
    ) -> Json:
        if not {".", ".."}.isdisjoint(path):
            raise Invalid(f"{path[-1]!r} is not allowed in a URL")
        try:
            # keystoneauth would replace "%" in a base address, but not in a complete URL.
            url = "/".join([self.place, "scheduler/v1", *(quote(step, safe="") for step in path)])
            url += f"?{urlencode(query)}" if query else ""
        except UnicodeEncodeError as error:
            raise Invalid(f"{error.object!r} is not valid UTF-8") from None
        try:
            method = method or ("GET" if body is None else "POST")
            response = self._service.get_json(method, url, body=body, taken=_ANY_STATUS)
        except ServiceFailed as failure:
            reasons = list(exception_chain(failure))
            kinds = set(map(type, reasons))
            is_sent = not any("handshake" in str(reason) for reason in reasons)
            if TimeoutError not in kinds or ConnectTimeout in kinds or not is_sent:
                raise
            raise Unavailable(
                f"{self.place} did not answer within {self._timeout:g} s and may still process "
                "the request: increase --timeout SECONDS"
            ) from None
        if not 200 <= response.status < 300:
            raise _error(response, self.place)
        if isinstance(response.document, dict):
            return response.document
        raise Error(
            f"{self.place} did not answer with JSON; check that it is a placement-sched server"
        )


def _find_endpoint(adapter: Adapter, **criteria: Any) -> str | None:
    try:
        return adapter.get_endpoint(**criteria)
    except EndpointNotFound:
        return None


#: Scheduler of a command.
SchedulerApi = DirectScheduler | SchedulerClient


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
    services = make_services(read_settings(arguments.config_file), memory=ProcessCaches())
    try:
        check_file_exists(services.database, "--url and --os-cloud use a server")
        services.ready()
        yield DirectScheduler(services.scheduler)
    finally:
        services.scheduler.announcer.close()
        services.database.dispose()


def _error(response: ServiceResponse, base: str) -> Error:
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
