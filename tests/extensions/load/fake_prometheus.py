# SPDX-License-Identifier: Apache-2.0
"""A Prometheus server with recorded JSON responses to instant queries."""

from urllib.parse import parse_qs

from tests.support.loopback import FakeService

#: The response of Prometheus 2.45 to ``sum(``, with status 400.
PARSE_ERROR = {
    "status": "error",
    "errorType": "bad_data",
    "error": 'invalid parameter "query": 1:5: parse error: unclosed left parenthesis',
}
#: The evaluation time of recorded responses.
RECORDED_AT = 1_767_268_800.123  # 2026-01-01 12:00 UTC


class FakePrometheus(FakeService):
    """Responses by query. Other queries have an empty vector."""

    def __init__(self) -> None:
        super().__init__()
        self.responses = {}
        self.seen = []

    def respond(self, environ):
        """Return the response to a query."""
        (query,) = parse_qs(environ["QUERY_STRING"]).get("query", [""])
        self.seen.append((environ["PATH_INFO"], environ.get("HTTP_AUTHORIZATION"), query))
        return "200 OK", self.responses.get(query, build_vector())


def build_vector(*values, time=RECORDED_AT, **series):
    """Build a response with a series per pair or host."""
    pairs = [*values, *(({"nodename": host}, value) for host, value in series.items())]
    result = [{"metric": labels, "value": [time, str(value)]} for labels, value in pairs]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}
