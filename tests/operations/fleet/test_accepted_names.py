# SPDX-License-Identifier: Apache-2.0
"""Names in fleet files: a file accepts exactly the names that the APIs accept."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.operations.fleet.cloud import escape
from placement_sched.schemas.yaml_file import to_yaml
from tests.conftest import delete_test_rows
from tests.operations.fleet.conftest import LoadableCloud
from tests.support.clouds import uuid_of
from tests.support.reports import build_report
from tests.support.versions import LATEST

pytestmark = pytest.mark.slow

VERSION_HEADERS = {"OpenStack-API-Version": f"placement {LATEST}, compute 2.90"}
UUID_1, UUID_2 = uuid_of("one"), uuid_of("two")
NAMES_TO_TRY = [
    *("x", "", " x", "x ", "a\tb", "\u00a0x", "\u03a9", "\x7f", "a:b", "[1-2]", "{root}\\"),
    *("[" * 200, "x" * 201, "x" * 256),
]
PROVIDERS_PATH, FLAVORS_PATH, AGGREGATES_PATH = (
    "/placement/resource_providers",
    "/compute/v2.1/flavors",
    "/compute/v2.1/os-aggregates",
)
VCPU_INVENTORIES = {"VCPU": {"total": 9}}
FLAVOR_SIZES = {"vcpus": 1, "memory_mb": 1}
FLAVOR_BODY = {"name": "f", "ram": 1, "vcpus": 1, "disk": 1, "id": "f", "swap": 0}
SERVER_GROUP = {"name": "g", "policy": "affinity"}
PROJECT_AND_USER = {"project": "p", "user": "u"}
#: Requests: method, path and body. ``<id>`` in a path is the id of the object created before.
POST_PROVIDER_Q = ("POST", PROVIDERS_PATH, {"name": "q", "uuid": UUID_1})
POST_CHILD_PROVIDER_R = (
    "POST",
    PROVIDERS_PATH,
    {"name": "r", "uuid": UUID_2, "parent_provider_uuid": UUID_1},
)
PUT_INVENTORY = (
    "PUT",
    f"{PROVIDERS_PATH}/{UUID_1}/inventories",
    {"resource_provider_generation": 0, "inventories": VCPU_INVENTORIES},
)


def build_allocations_request(**changes):
    claim = {
        "allocations": {UUID_1: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }
    return "PUT", f"/placement/allocations/{UUID_2}", claim | changes


def build_report_request(**changes):
    return "POST", "/scheduler/v1/compute_nodes", [build_report(**changes)]


def build_flavor_request(**changes):
    return "POST", FLAVORS_PATH, {"flavor": FLAVOR_BODY | changes}


def build_extra_specs_request(specs):
    return "POST", f"{FLAVORS_PATH}/f/os-extra_specs", {"extra_specs": specs}


def build_aggregate_metadata_request(metadata):
    return "POST", f"{AGGREGATES_PATH}/<id>/action", {"set_metadata": {"metadata": metadata}}


def build_allocations_entry(name="q", **owner):
    claim = {"consumer": UUID_2, **PROJECT_AND_USER, "allocations": {name: {"VCPU": 1}}, **owner}
    provider = {"name": escape(name), "inventories": VCPU_INVENTORIES}
    return {"providers": [provider], "allocations": [claim]}


def build_section(section, **values):
    return {section: [values]}


#: Requests that write a name, and a fleet document with this name. Only the tests of ``make
#: test-all`` have the fields in ``SIMILAR_REQUESTS_AND_SECTIONS``, whose schema is that of
#: another field.
REQUESTS_AND_SECTIONS = {
    "a provider's name": (
        lambda text: [POST_PROVIDER_Q, ("PUT", f"{PROVIDERS_PATH}/{UUID_1}", {"name": text})],
        lambda text: build_section("providers", name=escape(text)),
    ),
    "the provider's name in allocations": (
        lambda text: [
            ("POST", PROVIDERS_PATH, {"name": text, "uuid": UUID_1}),
            PUT_INVENTORY,
            build_allocations_request(),
        ],
        build_allocations_entry,
    ),
    "a consumer's project": (
        lambda text: [POST_PROVIDER_Q, PUT_INVENTORY, build_allocations_request(project_id=text)],
        lambda text: build_allocations_entry(project=text),
    ),
    "a consumer's type": (
        lambda text: [
            POST_PROVIDER_Q,
            PUT_INVENTORY,
            build_allocations_request(consumer_type=text),
        ],
        lambda text: build_allocations_entry(type=text),
    ),
    "a host": (
        lambda text: [build_report_request(host=text)],
        lambda text: build_section("hosts", **FLAVOR_SIZES, host=escape(text), node="cn1"),
    ),
    "a service's reason": (
        lambda text: [
            build_report_request(host="cn1"),
            (
                "PUT",
                "/compute/v2.1/os-services/disable-log-reason",
                {"host": "cn1", "binary": "nova-compute", "disabled_reason": text},
            ),
        ],
        lambda text: build_section("services", host="cn1", status="disabled", disabled_reason=text),
    ),
    "a flavor's name": (
        lambda text: [build_flavor_request(name=text)],
        lambda text: build_section("flavors", **FLAVOR_SIZES, name=text),
    ),
    "a flavor's id": (
        lambda text: [build_flavor_request(id=text)],
        lambda text: build_section("flavors", **FLAVOR_SIZES, name="f", id=text),
    ),
    "a flavor's description": (
        lambda text: [build_flavor_request(description=text)],
        lambda text: build_section("flavors", **FLAVOR_SIZES, name="f", description=text),
    ),
    "an extra spec's key": (
        lambda text: [build_flavor_request(), build_extra_specs_request({text: "1"})],
        lambda text: build_section("flavors", **FLAVOR_SIZES, name="f", extra_specs={text: "1"}),
    ),
    "an aggregate's zone": (
        lambda text: [
            ("POST", AGGREGATES_PATH, {"aggregate": {"name": "g", "availability_zone": text}})
        ],
        lambda text: build_section("aggregates", name="g", availability_zone=text),
    ),
    "a key of metadata": (
        lambda text: [
            ("POST", AGGREGATES_PATH, {"aggregate": {"name": "g"}}),
            build_aggregate_metadata_request({text: "1"}),
        ],
        lambda text: build_section("aggregates", name="g", metadata={text: "1"}),
    ),
    **{
        f"an image's {key}": (
            lambda text, body=body: [("POST", "/image/v2/images", {"name": "i", **body(text)})],
            lambda text, values=values: build_section("images", **{"name": "i", **values(text)}),
        )
        for key, body, values in (
            ("name", lambda text: {"name": text}, lambda text: {"name": text}),
            ("owner", lambda text: {"owner": text}, lambda text: {"owner": text}),
            ("tag", lambda text: {"tags": [text]}, lambda text: {"tags": [text]}),
            ("property", lambda text: {text: "1"}, lambda text: {"properties": {text: "1"}}),
            (
                "value",
                lambda text: {"k": text * 300},
                lambda text: {"properties": {"k": text * 300}},
            ),
        )
    },
    **{
        f"an instance's {key}": (
            lambda text, field=field: [
                (
                    "PUT",
                    f"/scheduler/v1/instances/{UUID_1}",
                    {"host": "h", "node": "h", field: text},
                )
            ],
            lambda text, key=key, write=write: build_section(
                "instances", **{"name": "n", key: write(text)}
            ),
        )
        for key, field, write in (
            ("name", "display_name", escape),
            ("project", "project_id", str),
            ("host", "host", escape),
            ("node", "node", escape),
            ("user", "user_id", str),
            ("vm_state", "vm_state", str),
            ("task_state", "task_state", str),
        )
    },
}
SIMILAR_REQUESTS_AND_SECTIONS = {
    "the name of a child": (
        lambda text: [
            POST_PROVIDER_Q,
            POST_CHILD_PROVIDER_R,
            ("PUT", f"{PROVIDERS_PATH}/{UUID_2}", {"name": text}),
        ],
        lambda text: build_section("providers", name="q", providers=[{"name": escape(text)}]),
    ),
    "a consumer's user": (
        lambda text: [POST_PROVIDER_Q, PUT_INVENTORY, build_allocations_request(user_id=text)],
        lambda text: build_allocations_entry(user=text),
    ),
    "a node": (
        lambda text: [build_report_request(hypervisor_hostname=text)],
        lambda text: build_section("hosts", **FLAVOR_SIZES, host="cn1", node=escape(text)),
    ),
    "a hypervisor's type": (
        lambda text: [build_report_request(hypervisor_type=text)],
        lambda text: build_section("hosts", **FLAVOR_SIZES, host="cn1", hypervisor_type=text),
    ),
    "a host's address": (
        lambda text: [build_report_request(host_ip=text)],
        lambda text: build_section("hosts", **FLAVOR_SIZES, host="cn1", host_ip=escape(text)),
    ),
    "an extra spec's value": (
        lambda text: [build_flavor_request(), build_extra_specs_request({"k": text})],
        lambda text: build_section("flavors", **FLAVOR_SIZES, name="f", extra_specs={"k": text}),
    ),
    "a flavor's project": (
        lambda text: [
            build_flavor_request(**{"os-flavor-access:is_public": False}),
            ("POST", f"{FLAVORS_PATH}/f/action", {"addTenantAccess": {"tenant": text}}),
        ],
        lambda text: build_section(
            "flavors", **FLAVOR_SIZES, name="f", is_public=False, projects=[text]
        ),
    ),
    "a group's name": (
        lambda text: [
            (
                "POST",
                "/compute/v2.1/os-server-groups",
                {"server_group": {**SERVER_GROUP, "name": text}},
            )
        ],
        lambda text: build_section("server_groups", **{**SERVER_GROUP, "name": text}),
    ),
    "an aggregate's name": (
        lambda text: [("POST", AGGREGATES_PATH, {"aggregate": {"name": text}})],
        lambda text: build_section("aggregates", name=text),
    ),
    "a value of metadata": (
        lambda text: [
            ("POST", AGGREGATES_PATH, {"aggregate": {"name": "g"}}),
            build_aggregate_metadata_request({"k": text}),
        ],
        lambda text: build_section("aggregates", name="g", metadata={"k": text}),
    ),
    **{
        name: REQUESTS_AND_SECTIONS.pop(name)
        for name in (
            "an image's owner",
            "an instance's host",
            "an instance's node",
            "an instance's user",
            "an instance's vm_state",
            "an instance's task_state",
        )
    },
}


def are_requests_accepted(app, requests):
    """Send requests and return whether all succeed. Old routes get no version header."""
    number, statuses = "", []
    for method, path, body in requests:
        send = app.post_json if method == "POST" else app.put_json
        headers = {} if path.startswith("/compute/v2.1/os-services") else VERSION_HEADERS
        response = send(path.replace("<id>", number), body, headers=headers, expect_errors=True)
        statuses.append(response.status_int)
        if response.status_int < 300 and path == AGGREGATES_PATH:
            number = str(response.json["aggregate"]["id"])
    return max(statuses) < 300


def can_load_document(cloud, document):
    try:
        cloud.load(to_yaml(document))
    except Invalid:
        return False
    return True


@pytest.mark.parametrize(
    ("requests", "document"),
    [
        *(pytest.param(*field, id=name) for name, field in REQUESTS_AND_SECTIONS.items()),
        *(
            pytest.param(*field, id=name, marks=pytest.mark.exhaustive)
            for name, field in SIMILAR_REQUESTS_AND_SECTIONS.items()
        ),
    ],
)
def test_fleet_file_accepts_the_same_names_as_the_api(
    sqlite_app, sqlite_settings, sqlite_database, sqlite_url, empty_cloud, requests, document
):
    written, loaded = LoadableCloud(sqlite_database, sqlite_settings), empty_cloud()
    loaded_url = loaded.database.url.render_as_string(hide_password=False)
    for text in NAMES_TO_TRY:
        delete_test_rows(sqlite_url)
        delete_test_rows(loaded_url)
        is_accepted = are_requests_accepted(sqlite_app, requests(text))
        if is_accepted:
            loaded.load(written.dump())
            assert loaded.state == written.state
            delete_test_rows(loaded_url)
        assert can_load_document(loaded, document(text)) == is_accepted, text
