# SPDX-License-Identifier: Apache-2.0
"""Client of the scheduler API for commands.

Without a server, the API runs in this process and uses the configured database.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException, EndpointNotFound
from requests import ConnectTimeout

from placement_sched.api.in_process import make_adapter
from placement_sched.api.routing import Services
from placement_sched.app import make_local_application
from placement_sched.cli.arguments import (
    EmbeddedParser,
    add_output,
    parse_seconds,
    rejected_arguments,
)
from placement_sched.cli.database import (
    add_cloud_sources,
    check_file_exists,
    find_cloud_source,
    hide_password,
    read_command_settings,
)
from placement_sched.cli.login import add_login_arguments, make_adapters
from placement_sched.clients.session import (
    RemoteService,
    ServiceResponse,
    iterate_exception_chain,
    silence_library_logs,
)
from placement_sched.errors import Error, Invalid, NotFound, NoValidHost, ServiceFailed, Unavailable
from placement_sched.model.document import Json, build_json_path, find_invalid_text
from placement_sched.model.extension import Translator, load_hooks
from placement_sched.schemas.formats import show_value

#: Default timeout of a request, in seconds. Longer than the server waits for locks.
TIMEOUT = 120
_ANY_STATUS = range(1000)
#: Path of an API, which may be at the end of the server's URL in a service catalogue.
_API_PATH = re.compile(r"/(placement|scheduler(/v1)?)$")

#: Paths of lists whose documents have ``next`` (the marker of the next page), not links.
_PAGED = (("decisions",), ("plan_runs",), ("violations",))
#: A query string, as pairs or a mapping.
Query = Mapping[str, str] | Sequence[tuple[str, str]]


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


def add_common_arguments(parser: argparse.ArgumentParser, *, reads_cloud: bool = False) -> None:
    """Add the options of a server and of the output.

    A command that only ``reads_cloud`` can read a fleet file instead.
    """
    add_server_arguments(parser)
    if reads_cloud and not isinstance(parser, EmbeddedParser):
        add_cloud_sources(parser, has_login=True)
    add_output(parser)
    translators = load_hooks("translator")
    for translator in translators:
        translator.add_arguments(parser)
    parser.set_defaults(translators=translators)


class SchedulerClient:
    """Client of the scheduler API, of a server or in this process.

    Methods return JSON and raise the errors of the server. ``timeout`` is in seconds. ``database``
    is the URL of the database without its password, and ``services`` are the services of the
    application, if it is in this process.
    """

    #: URL of the server, or of the database of an application in this process.
    place: str

    def __init__(
        self,
        adapter: Adapter,
        timeout: float = TIMEOUT,
        *,
        database: str | None = None,
        services: Services | None = None,
    ) -> None:
        with suppress(ClientException):
            if not _find_endpoint(adapter) and _find_endpoint(adapter, service_type="placement"):
                # The catalogue has only the Placement API of the server.
                adapter.service_type = "placement"
        # A repeated selection could claim twice, and the server may close an idle connection at the
        # moment of the next request.
        adapter.connect_retries = adapter.status_code_retries = 0
        adapter.additional_headers["Connection"] = "close"
        self._timeout = timeout
        self._service = RemoteService(adapter, "scheduler", timeout)
        self._compute = RemoteService(adapter, "compute", timeout)
        self._url = _API_PATH.sub("", self._service.url)
        self.place = self._url if database is None else database
        self.is_local = database is not None
        self.services = services
        self.translator: Translator | None = None

    def get(self, *path: str, query: Query | None = None) -> Json:
        """Return the resource or list at a path below ``/scheduler/v1``."""
        return self._call("GET", *path, query=query)

    def post(self, *path: str, body: Json) -> Json:
        """Return the response of an action, or raise :class:`NoValidHost`."""
        return self._call("POST", *path, body=body)

    def put(self, *path: str, body: Json) -> Json:
        """Change the plan run or the move at a path, and return it."""
        return self._call("PUT", *path, body=body)

    def map_aggregate_names(self) -> dict[str, str]:
        """Map aggregates to names. Empty if the caller may not list them."""
        path = f"{self._url}/compute/v2.1/os-aggregates"
        with suppress(ServiceFailed):
            names = dict(self._compute.read_list(path, "aggregates", itemgetter("uuid", "name")))
            return dict(self.restore(names))
        return {}

    def list_flavor_names(self) -> list[str]:
        """Return the names of stored flavors."""
        path = f"{self._url}/compute/v2.1/flavors"
        return self._compute.read_list(path, "flavors", itemgetter("name"), is_public="None")

    def has_server_group(self, uuid: str) -> bool:
        """Return whether a server group is stored."""
        try:
            self._compute.get_json("GET", f"{self._url}/compute/v2.1/os-server-groups/{uuid}")
        except (NotFound, ServiceFailed):
            return False
        return True

    def restore(self, document: Any) -> Any:
        """Return a document with the original names of an anonymised cloud."""
        with rejected_arguments():
            return self.translator.restore(document) if self.translator else document

    def _call(
        self, method: str, *path: str, query: Query | None = None, body: Json | None = None
    ) -> Json:
        if self.translator:
            path = (path[0], *(self.translator.convert(step, "host") for step in path[1:]))
            pairs = query.items() if isinstance(query, Mapping) else query or ()
            query = [(key, self.translator.convert(value, key)) for key, value in pairs]
            body = self.translator.convert(body)
        if invalid := find_invalid_text(body):
            text, keys = invalid
            problem = f"{show_value(text)} is not valid UTF-8"
            raise Invalid(problem, json_path=build_json_path(keys))
        if not {".", ".."}.isdisjoint(path):
            raise Invalid(f"{path[-1]!r} is not allowed in a URL")
        try:
            # keystoneauth would replace "%" in a base address, but not in a complete URL.
            url = "/".join([self._url, "scheduler/v1", *(quote(step, safe="") for step in path)])
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
        response = replace(response, document=self.restore(response.document))
        if not 200 <= response.status < 300:
            raise _build_error(response, self.place)
        if not isinstance(document := response.document, dict):
            raise Error(
                f"{self.place} did not answer with JSON. Check that it is a placement-sched server"
            )
        if path in _PAGED and "links" in document:
            following = [parse_qs(urlsplit(link["href"]).query) for link in document.pop("links")]
            document["next"] = following[0]["marker"][-1] if following else None
        return document


def _find_endpoint(adapter: Adapter, **criteria: Any) -> str | None:
    try:
        return adapter.get_endpoint(**criteria)
    except EndpointNotFound:
        return None


@contextmanager
def open_scheduler(arguments: argparse.Namespace) -> Iterator[SchedulerClient]:
    """Yield the scheduler that the arguments select, and close it at the end."""
    with _open_client(arguments) as client:
        for translator in getattr(arguments, "translators", ()):
            with rejected_arguments():
                client.translator = client.translator or translator.read_translator(arguments)
        yield client


@contextmanager
def _open_client(arguments: argparse.Namespace) -> Iterator[SchedulerClient]:
    if client := getattr(arguments, "scheduler", None):  # of the openstack command
        yield client
        return
    source = find_cloud_source(arguments)
    urls = {"scheduler": ("--url", arguments.url)}
    for adapter in [] if source else make_adapters(arguments, urls).values():
        with silence_library_logs():
            yield SchedulerClient(adapter, arguments.timeout)
        return
    application = make_local_application(read_command_settings(arguments))
    try:
        database = application.services.database
        check_file_exists(database, "query a server with --url or --os-cloud")
        place = source.get_place(arguments) if source else hide_password(database)
        services = application.services
        yield SchedulerClient(make_adapter(application), database=place, services=services)
    finally:
        application.close()


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
    error_class = NotFound if response.status == 404 else Error
    data = {**fault, "rest": suffix} if is_fault else None
    return error_class(f"{detail}{suffix}", code=code or None, fault=data)
