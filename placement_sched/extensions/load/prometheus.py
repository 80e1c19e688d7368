# SPDX-License-Identifier: Apache-2.0
"""Client of Prometheus' HTTP API for instant queries.

Source: "HTTP API" of the documentation of Prometheus. Services such as Thanos, Mimir and
VictoriaMetrics have the same API.
"""

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from keystoneauth1.adapter import Adapter

from placement_sched.clients.session import RemoteService, ServiceResponse, make_session
from placement_sched.config.settings import OptionGroup
from placement_sched.extensions.load.values import Series

_PATH = "/api/v1/query"
_ANY_STATUS = range(1000)
#: Maximum length of a message of Prometheus, which may repeat the query and labels.
_MAX_MESSAGE = 1_000
#: The first second after the last year that Python has.
_MAX_TIME = 253_402_300_800


class Prometheus:
    """Client of the Prometheus server of the options of [load]."""

    def __init__(self, options: OptionGroup) -> None:
        headers = {}
        if options.prometheus_token:
            headers["Authorization"] = f"Bearer {options.prometheus_token}"
        elif options.prometheus_username:
            pair = f"{options.prometheus_username}:{options.prometheus_password or ''}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        session = make_session(cacert=options.prometheus_cafile)
        # The login must not be sent to another address.
        session.redirect = False
        adapter = Adapter(
            session,
            endpoint_override=options.prometheus_url,
            additional_headers=headers,
            # The next collection is the retry.
            connect_retries=0,
            status_code_retries=0,
        )
        self._service = RemoteService(adapter, "prometheus", options.prometheus_timeout)

    def query(self, expression: str) -> list[Series]:
        """Return the series of an instant vector.

        Raises :class:`ServiceFailed` with Prometheus' own message for an invalid query, and for a
        server that does not answer, or not with a vector.
        """
        response = self._service.get_json(
            "GET", _PATH, params={"query": expression}, accepted_statuses=_ANY_STATUS
        )
        data = self._find_data(response)
        with self._service.translate_shape_errors(_PATH):
            kind = data["resultType"]
            if kind == "vector":
                return [_read_series(item) for item in data["result"]]
        raise self._service.build_failure(f"the result is a {kind}, and must be an instant vector")

    def _find_data(self, response: ServiceResponse) -> Any:
        document = response.document if isinstance(response.document, dict) else {}
        if document.get("status") == "success" and response.status == 200:
            return document.get("data")
        if document.get("status") == "error":
            message = " ".join(str(document.get("error")).split())[:_MAX_MESSAGE]
            raise self._service.build_failure(f"Prometheus: {message}")
        problem = f"{self._service.url} answered {response.status} {response.reason} to GET {_PATH}"
        if response.status in {401, 403}:
            problem += ". Check [load] prometheus_token, or prometheus_username and its password"
        elif response.status == 200:
            problem += ", without the JSON of Prometheus. Check [load] prometheus_url"
        raise self._service.build_failure(problem)


def _read_series(item: Any) -> Series:
    time, value = item["value"]
    if not 0 <= time < _MAX_TIME:
        raise ValueError("not a time")
    moment = datetime.fromtimestamp(time, UTC).replace(tzinfo=None)
    labels = {str(name): str(text) for name, text in item["metric"].items()}
    return Series(labels, float(value), moment)
