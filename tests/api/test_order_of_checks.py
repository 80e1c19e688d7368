# SPDX-License-Identifier: Apache-2.0
"""The order of the checks of a request, from a request with every error at first."""

import re
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from werkzeug.test import create_environ, run_wsgi_app

from placement_sched.api import application
from placement_sched.api.application import Application
from placement_sched.api.health import make_blueprint
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.routes import PlacementConventions
from placement_sched.api.routing import Api, ApiResponse, Blueprint
from placement_sched.api.serving import FULL, REJECTED_BODY_KEY, SLOW, BodyReader, ReadBody
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import Version
from placement_sched.app import make_services
from placement_sched.errors import NotFound, Unavailable
from placement_sched.operations.nova_cloud import NovaObjectKind

CONVENTIONS_PAGE = Path(__file__).parents[2] / "api-ref" / "source" / "conventions.rst"
MAX_BODY = 1024

things_blueprint = Blueprint("thing", __name__)
existing_thing_names: set[str] = set()


def find_thing(_services, name):
    if name not in existing_thing_names:
        raise NotFound(f"There is no thing {name}")


def _build_object_schema(**properties):
    return Schemas({"type": "object", "properties": properties, "additionalProperties": False})


# No route of the APIs has every check. The method is GET, since Accept counts for reads only.
@things_blueprint.get(
    "/things/<name>",
    policy="placement:traits:update",
    since=Version(1, 6),
    action="mend",
    body=_build_object_schema(mend={"type": "object"}),
    query=_build_object_schema(kind={"type": "string"}),
    subject=find_thing,
    changes=NovaObjectKind.SERVICES,
)
def update_thing(_call, name):
    return ApiResponse(body={"mended": name})


THINGS_API = Api("a", PlacementConventions(VERSIONING), [things_blueprint])


class FaultyRequest:
    """A request with errors, and the service with a database that may be absent."""

    def __init__(self, settings):
        self.absent = True
        self.services = replace(make_services(settings), ready=self.check_database)
        self.api = Application(self.services, {"/a": THINGS_API}, make_blueprint(self.services))
        self.application = BodyReader(self.api, MAX_BODY)
        self.environ = create_environ("/a/nowhere", method="BREW", query_string="nope=1")
        self.environ |= {
            "HTTP_TRANSFER_ENCODING": "chunked",
            "HTTP_OPENSTACK_API_VERSION": "placement one",
            "HTTP_ACCEPT": "text/plain",
        }
        self.body = b"x"

    def check_database(self):
        if self.absent:
            raise Unavailable("The database does not answer")

    def send_changed_request(self, **changes):
        """Change the request, send it, and return status and body. Empty values are left out."""
        self.absent = changes.pop("absent", self.absent)
        self.body = changes.pop("body", self.body)
        if "nova" in changes:
            nova = {"api_database.connection": changes.pop("nova")}
            settings = self.services.settings.with_overrides(nova)
            self.api.services = replace(self.services, settings=settings)
        self.environ.update(changes)
        length = self.environ.get("CONTENT_LENGTH", str(len(self.body)))
        sent = {**self.environ, "CONTENT_LENGTH": length, "wsgi.input": BytesIO(self.body)}
        sent = {name: value for name, value in sent.items() if value != ""}
        body, status, _ = run_wsgi_app(self.application, sent)
        return int(status[:3]), b"".join(body).decode()


@pytest.fixture
def faulty_request(sqlite_settings):
    existing_thing_names.clear()
    configured = {"api.max_request_body_size": MAX_BODY, "api_database.connection": "sqlite://"}
    request = FaultyRequest(sqlite_settings.with_overrides(configured))
    yield request
    request.services.database.dispose()


def test_errors_of_a_request_are_reported_in_the_documented_order(faulty_request):
    #: The changed fields, and the step, status and words of the next error.
    corrections = [
        ({}, 1, 411, "header Content-Length is required"),
        ({"HTTP_TRANSFER_ENCODING": "", "CONTENT_LENGTH": str(MAX_BODY)}, 1, 400, "ended before"),
        # A body cannot be incomplete, too long and of a wrong length at the same time.
        ({"CONTENT_LENGTH": "many", "body": b"x" * (MAX_BODY + 1)}, 2, 401, "No X-Auth-Token"),
        ({"HTTP_X_AUTH_TOKEN": "ann"}, 3, 400, "invalid version"),
        ({"HTTP_OPENSTACK_API_VERSION": "placement 1.999"}, 3, 406, "Unacceptable version"),
        ({"HTTP_OPENSTACK_API_VERSION": "placement 1.5"}, 4, 400, "must be an integer"),
        ({"CONTENT_LENGTH": str(MAX_BODY + 1)}, 4, 400, "content-type header required"),
        ({"CONTENT_TYPE": "text/plain"}, 5, 503, "The database does not answer"),
        ({"absent": False}, 6, 404, "could not be found"),
        ({"PATH_INFO": "/a/things/x\0"}, 6, 405, "BREW is not allowed"),
        ({"REQUEST_METHOD": "GET"}, 6, 404, "not served at the requested microversion"),
        ({"HTTP_OPENSTACK_API_VERSION": "placement 1.39"}, 7, 415, "text/plain is not supported"),
        ({"CONTENT_TYPE": "application/json"}, 7, 406, "Only application/json is provided"),
        ({"HTTP_ACCEPT": "application/json"}, 8, 413, "larger than"),
        ({"CONTENT_LENGTH": "2", "body": b"{]"}, 8, 400, "Malformed JSON"),
        ({"CONTENT_LENGTH": "2", "body": b"{}"}, 8, 400, "exactly one key"),
        ({"CONTENT_LENGTH": "10", "body": b'{"nope":1}'}, 8, 400, "no such action: nope"),
        ({"CONTENT_LENGTH": "10", "body": b'{"mend":1}'}, 9, 403, "placement:traits:update"),
        ({"HTTP_X_AUTH_TOKEN": "admin"}, 10, 409, "read from nova's databases"),
        ({"nova": ""}, 11, 404, "NUL"),
        ({"PATH_INFO": "/a/things/x"}, 11, 400, "Invalid query string parameters"),
        ({"QUERY_STRING": "kind=b"}, 12, 404, "There is no thing x"),
    ]
    errors = [
        (step, *faulty_request.send_changed_request(**changes)) for changes, step, *_ in corrections
    ]
    expected = [(step, status) for _, step, status, _ in corrections]
    assert [(step, status) for step, status, _ in errors] == expected
    for (_, _, body), (_, _, _, words) in zip(errors, corrections, strict=True):
        assert words in body
    existing_thing_names.add("x")
    assert faulty_request.send_changed_request()[0] == 400
    assert faulty_request.send_changed_request(CONTENT_LENGTH="11", body=b'{"mend":{}}') == (
        200,
        '{"mended":"x"}',
    )
    documented = {
        int(step): numbers for step, numbers in read_documented_steps(application.__doc__).items()
    }
    assert all(status in documented[step] for step, status in expected)


@pytest.mark.parametrize("rejection", [SLOW, FULL])
def test_incomplete_body_is_reported_before_all_other_errors(faulty_request, rejection):
    """``placement-sched serve`` reads bodies itself and passes the rejection on."""
    sent = {**faulty_request.environ, "wsgi.input": ReadBody(), REJECTED_BODY_KEY: rejection}
    _, status, _ = run_wsgi_app(faulty_request.application, sent)
    assert int(status[:3]) == rejection.status
    assert rejection.status in read_documented_steps(application.__doc__)[1]


def read_documented_steps(text):
    """Return the statuses of each step of the list."""
    steps = re.findall(r"^(\d+)\. (.*(?:\n {3,}.*)*)", text, re.MULTILINE)
    return {int(step): set(map(int, re.findall(r"\b[45]\d\d\b", words))) for step, words in steps}


def test_api_reference_lists_the_checks_in_the_tested_order():
    listed = re.compile(r"^1\. The body arrives.*?\n\n", re.MULTILINE | re.DOTALL)
    (ours,) = listed.findall(application.__doc__)
    (documented,) = listed.findall(CONVENTIONS_PAGE.read_text())
    assert ours == documented
    assert list(read_documented_steps(ours)) == list(range(1, 13))
