# SPDX-License-Identifier: Apache-2.0
"""Clients of the scheduler for commands: over HTTP, or inside the command.

A scheduler inside the command uses the configured database.
"""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import itemgetter
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import orjson
from requests import ConnectTimeout

from placement_sched.api.scheduler import capacity, hosts, recorded, request_schema
from placement_sched.api.validation import Schemas, check_texts
from placement_sched.api.versions import Version
from placement_sched.app import make_services
from placement_sched.cli.database import check_file_exists, url_without_password
from placement_sched.clients.session import (
    RemoteService,
    ServiceResponse,
    adapter_for_token,
    exception_chain,
)
from placement_sched.errors import Error, Invalid, NoValidHost, ServiceFailed, Unavailable
from placement_sched.model.document import Json
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.host_views import show_host as host_shown
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.policy_views import list_policies, show_policy
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.compute import host_aggregates

#: Maximum timeout of a request, in seconds: a day.
_MAX_TIMEOUT = 86_400
#: Default timeout of a request, in seconds; longer than the server waits for locks.
TIMEOUT = 120
#: Prefix of the message about a document that does not match its schema.
_PREFIX = "JSON does not validate"
_ANY_STATUS = range(1000)

#: Schemas and handler of the body of each POST to ``/scheduler/v1``.
_ACTIONS = {
    "capacity": (capacity.CAPACITY, capacity.answer),
    "explain": (request_schema.EXPLAIN, request_schema.explain),
    "plan": (request_schema.PLAN, request_schema.plan),
    "rebalance": (request_schema.REBALANCE, request_schema.rebalance),
    "select_destinations": (request_schema.SELECT, request_schema.select),
}
_SHOWN = {"decisions": recorded.show_decision, "hosts": host_shown, "policies": show_policy}


class DirectScheduler:
    """Scheduler of the configured database, with the JSON of ``/scheduler/v1``.

    Its methods raise the errors of the scheduler, such as :class:`Invalid`, :class:`NoValidHost`.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        #: URL of the database without its password.
        self.place = url_without_password(scheduler.database)
        self.policies = partial(list_policies, scheduler)

    def aggregate_names(self) -> dict[str, str]:
        """Return the names of host aggregates by uuid."""
        with self._scheduler.database.read() as connection:
            return {row.uuid: row.name for row in host_aggregates.all_aggregates(connection)}

    def post(self, action: str, body: Json) -> Json:
        """Return the response to ``body``.

        Raises :class:`NoValidHost`, with the funnel in ``extra``, if no host passes.
        """
        schemas, answer = _ACTIONS[action]
        _check(schemas, body)
        return answer(self._scheduler, body)

    def show(self, collection: str, name: str) -> Json:
        """Return a decision, host or policy, or raise :class:`NotFound`."""
        return _as_json(_SHOWN[collection](self._scheduler, name))

    def decisions(self, query: Mapping[str, str]) -> Json:
        """Return recorded decisions and the marker of the ``next`` page."""
        _check(recorded.LIST, dict(query))
        return _as_json(recorded.list_decisions(self._scheduler, query))

    def hosts(self, query: Sequence[tuple[str, str]]) -> Json:
        """Return the hosts that match the pairs of a query string."""
        return _as_json(hosts.search_hosts(self._scheduler, query))

    def replay(self, uuid: str, body: Json) -> Json:
        """Return a recorded decision, its result now and the differences."""
        _check(recorded.REPLAY, body)
        return _as_json(recorded.replay_decision(self._scheduler, uuid, body))


def _as_json(document: Json) -> Json:
    """Return a document as over HTTP, with times as texts."""
    return dict(orjson.loads(orjson.dumps(document)))


def _check(schemas: Schemas, body: Json) -> None:
    check_texts(body, _PREFIX)
    schema = schemas.at(Version(1, 0))
    if schema is not None:
        schema.check(body, _PREFIX)


def add_token(group: argparse._ArgumentGroup, use: str) -> None:
    """Add ``--token``. The help names the services in ``use``."""
    words = f"token for {use} (default: $OS_TOKEN, otherwise admin)"
    group.add_argument("--token", default=os.environ.get("OS_TOKEN", "admin"), help=words)


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a server."""
    server = parser.add_argument_group("server")
    server.add_argument(
        "--url", help="use this server (http://127.0.0.1:8778) instead of the configured database"
    )
    add_token(server, "--url")
    server.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help="timeout of requests to --url (default: %(default)s)",
    )


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


def check_address(flag: str, url: str) -> None:
    """Raise :class:`Invalid` if a text is not the URL of a service."""
    try:
        parts = urlsplit(url)
        # Both properties parse the text and may raise.
        host, _ = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        host = ""
    if not host or parts.scheme not in {"http", "https"}:
        raise Invalid(f"{flag} {url}: expected an http:// or https:// URL")


def check_token(token: str) -> None:
    """Raise :class:`Invalid`, without the token, if it is not allowed in a header."""
    if not token.strip():
        raise Invalid("the token (--token or $OS_TOKEN) is empty")
    # Clients write headers in latin-1.
    if not token.isprintable() or max(token, default="") > "\xff":
        raise Invalid(
            "the token (--token or $OS_TOKEN) has characters that are not allowed in a header"
        )


class SchedulerClient:
    """Client of the scheduler API of the server at ``base``.

    Methods raise the errors of the server. ``timeout`` is in seconds.
    """

    def __init__(self, base: str, token: str, timeout: float = TIMEOUT) -> None:
        check_address("--url", base)
        if not urlsplit(base).path.isascii():
            raise Invalid(f"--url {base}: not ASCII")
        check_token(token)
        #: URL of the server.
        self.place = base.rstrip("/")
        self._timeout = timeout
        # A repeated selection could claim twice, and the server may close an idle connection at the
        # moment of the next request.
        self._adapter = adapter_for_token(base, token, timeout=timeout, retries=0)
        self._adapter.additional_headers["Connection"] = "close"
        self._service = RemoteService(self._adapter, "scheduler")

    def post(self, action: str, body: Json) -> Json:
        """Return the response to ``body``.

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
        page = self._ask("decisions", query=list(query.items()))
        following = [parse_qs(urlsplit(link["href"]).query) for link in page.pop("links")]
        return {**page, "next": following[0]["marker"][-1] if following else None}

    def hosts(self, query: Sequence[tuple[str, str]]) -> Json:
        """Return the hosts that match the pairs of a query string."""
        return self._ask("hosts", query=query)

    def replay(self, uuid: str, body: Json) -> Json:
        """Return a recorded decision, its result now and the differences."""
        return self._ask("decisions", uuid, "replay", body=body)

    def aggregate_names(self) -> dict[str, str]:
        """Return the names of host aggregates by uuid.

        If the caller may not list aggregates, there are no names.
        """
        compute = RemoteService(self._adapter, "compute")
        path = f"{self.place}/compute/v2.1/os-aggregates"
        with suppress(ServiceFailed):
            return dict(compute.listed(path, "aggregates", itemgetter("uuid", "name")))
        return {}

    def _ask(
        self, *path: str, query: Sequence[tuple[str, str]] = (), body: Json | None = None
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
            method = "GET" if body is None else "POST"
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


#: Scheduler of a command.
SchedulerApi = DirectScheduler | SchedulerClient


@contextmanager
def open_scheduler(arguments: argparse.Namespace) -> Iterator[SchedulerApi]:
    """Yield the scheduler of the arguments and close its connections at the end."""
    if arguments.url:
        yield SchedulerClient(arguments.url, arguments.token, arguments.timeout)
        return
    # For a single request, filling the provider cache would take longer than the search.
    services = make_services(read_settings(arguments.config_file), memory=ProcessCaches())
    try:
        check_file_exists(services.database, "--url uses a server")
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
