# SPDX-License-Identifier: Apache-2.0
"""A fleet file may hold just the texts that requests give: each dump is taken, and no more is."""

from urllib.parse import quote

import pytest

from placement_sched.errors import Invalid
from placement_sched.operations.fleet.names import escape
from placement_sched.operations.fleet.yaml_file import to_yaml
from tests.conftest import empty
from tests.operations.fleet.conftest import Loaded
from tests.support.clouds import uuid_of
from tests.support.reports import build_report
from tests.support.versions import LATEST_HEADERS

ONE, TWO = uuid_of("one"), uuid_of("two")
AT_COMPUTE = {"OpenStack-API-Version": "compute 2.90"}
PROVIDER = {"name": "q", "inventories": {"VCPU": {"total": 9}}}
FLAVOR = {"name": "f", "ram": 1, "vcpus": 1, "disk": 1, "id": "f", "swap": 0}
SIZES = {"vcpus": 1, "memory_mb": 1}
GROUP = {"name": "g", "policy": "affinity"}

TEXTS = [
    "x",
    "",
    " x",
    "x ",
    "a\tb",
    "\u00a0x",
    "\u03a9",
    "\x7f",
    "a:b",
    "[1-2]",
    "{root}\\",
    "[" * 200,
    "x" * 201,
    "x" * 256,
]


def provider(app, name, uuid=ONE, **more):
    return app.post_json(
        "/placement/resource_providers",
        {"name": name, "uuid": uuid, **more},
        headers=LATEST_HEADERS,
        expect_errors=True,
    )


def renamed(app, name, uuid=ONE):
    """Rename a provider, which may so come to have no name."""
    return app.put_json(
        f"/placement/resource_providers/{uuid}",
        {"name": name},
        headers=LATEST_HEADERS,
        expect_errors=True,
    )


def child(app, name):
    provider(app, "q")
    provider(app, "r", TWO, parent_provider_uuid=ONE)
    return renamed(app, name, TWO)


def root(app, name):
    provider(app, "q")
    return renamed(app, name)


def with_stock(app, name="q"):
    made = provider(app, name)
    app.put_json(
        f"/placement/resource_providers/{ONE}/inventories",
        {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 9}}},
        headers=LATEST_HEADERS,
        expect_errors=True,
    )
    return made


def claimed(app, uuid=TWO, **changes):
    claim = {
        "allocations": {ONE: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }
    return app.put_json(
        f"/placement/allocations/{uuid}",
        claim | changes,
        headers=LATEST_HEADERS,
        expect_errors=True,
    )


def owner(key):
    def give(app, text):
        with_stock(app)
        return claimed(app, **{key: text})

    return give


def held_of(app, name):
    made = with_stock(app, name)
    if made.status_int == 200:
        assert claimed(app).status_int == 204
    return made


def instance(key):
    return lambda app, text: app.put_json(
        f"/scheduler/v1/instances/{ONE}", {"host": "h", "node": "h", key: text}, expect_errors=True
    )


def reported(key):
    return lambda app, text: app.post_json(
        "/scheduler/v1/compute_nodes", [build_report(**{key: text})], expect_errors=True
    )


def disabled(app, reason):
    reported("host")(app, "cn1")
    return app.put_json(
        "/compute/v2.1/os-services/disable-log-reason",
        {"host": "cn1", "binary": "nova-compute", "disabled_reason": reason},
        expect_errors=True,
    )


def compute(app, path, body, **headers):
    return app.post_json(
        f"/compute/v2.1/{path}", body, headers=AT_COMPUTE | headers, expect_errors=True
    )


def flavor(key):
    return lambda app, text: compute(app, "flavors", {"flavor": FLAVOR | {key: text}})


def extra_specs(specs):
    def give(app, text):
        flavor("name")(app, "f")
        return compute(app, "flavors/f/os-extra_specs", {"extra_specs": specs(text)})

    return give


def opened(app, project):
    flavor("os-flavor-access:is_public")(app, False)
    return compute(app, "flavors/f/action", {"addTenantAccess": {"tenant": project}})


def group(key):
    return lambda app, text: compute(app, "os-server-groups", {"server_group": GROUP | {key: text}})


def group_of(app, project):
    return compute(
        app, "os-server-groups", {"server_group": GROUP}, **{"X-Project-Id": project[:255]}
    )


def aggregate(key):
    return lambda app, text: compute(app, "os-aggregates", {"aggregate": {"name": "g", key: text}})


def described(metadata):
    def give(app, text):
        made = aggregate("name")(app, "g").json["aggregate"]["id"]
        action = {"set_metadata": {"metadata": metadata(text)}}
        return compute(app, f"os-aggregates/{made}/action", action)

    return give


def image(body):
    return lambda app, text: app.post_json(
        "/image/v2/images", {"name": "i", **body(text)}, expect_errors=True
    )


def tagged(app, tag):
    made = image(lambda _: {})(app, "").json["id"]
    return app.put(f"/image/v2/images/{made}/tags/{quote(tag, safe='')}", expect_errors=True)


def held(**owner):
    return {
        "providers": [PROVIDER],
        "allocations": [
            {
                "consumer": TWO,
                "project": "p",
                "user": "u",
                "allocations": {"q": {"VCPU": 1}},
                **owner,
            }
        ],
    }


def of_provider(name):
    return {
        "providers": [{**PROVIDER, "name": escape(name)}],
        "allocations": [
            {"consumer": TWO, "project": "p", "user": "u", "allocations": {name: {"VCPU": 1}}}
        ],
    }


def one(section, **entry):
    return {section: [entry]}


def an_instance(**entry):
    return one("instances", **{"name": "n", **entry})


def a_host(**entry):
    return one("hosts", **{"host": "cn1", **SIZES, **entry})


def a_flavor(**entry):
    return one("flavors", **{"name": "f", **SIZES, **entry})


#: What gives a text, and the document that gives it.
FIELDS = {
    "a provider's name": (root, lambda text: one("providers", name=escape(text))),
    "the name of one below": (
        child,
        lambda text: one("providers", name="q", providers=[{"name": escape(text)}]),
    ),
    "the name by which allocations name one": (held_of, of_provider),
    "a consumer's project": (owner("project_id"), lambda text: held(project=text)),
    "a consumer's user": (owner("user_id"), lambda text: held(user=text)),
    "a consumer's type": (owner("consumer_type"), lambda text: held(type=text)),
    "an instance's name": (instance("display_name"), lambda text: an_instance(name=escape(text))),
    "an instance's host": (instance("host"), lambda text: an_instance(host=escape(text))),
    "an instance's node": (instance("node"), lambda text: an_instance(node=escape(text))),
    "an instance's project": (instance("project_id"), lambda text: an_instance(project=text)),
    "an instance's user": (instance("user_id"), lambda text: an_instance(user=text)),
    "an instance's state": (instance("vm_state"), lambda text: an_instance(vm_state=text)),
    "an instance's task": (instance("task_state"), lambda text: an_instance(task_state=text)),
    "a host": (reported("host"), lambda text: a_host(host=escape(text), node="cn1")),
    "a node": (reported("hypervisor_hostname"), lambda text: a_host(node=escape(text))),
    "a hypervisor's type": (reported("hypervisor_type"), lambda text: a_host(hypervisor_type=text)),
    "a host's address": (reported("host_ip"), lambda text: a_host(host_ip=escape(text))),
    "a service's reason": (
        disabled,
        lambda text: one("services", host="cn1", status="disabled", disabled_reason=text),
    ),
    "a flavor's name": (flavor("name"), lambda text: a_flavor(name=text)),
    "a flavor's id": (flavor("id"), lambda text: a_flavor(id=text)),
    "a flavor's description": (flavor("description"), lambda text: a_flavor(description=text)),
    "an extra spec's key": (
        extra_specs(lambda text: {text: "1"}),
        lambda text: a_flavor(extra_specs={text: "1"}),
    ),
    "an extra spec's value": (
        extra_specs(lambda text: {"k": text}),
        lambda text: a_flavor(extra_specs={"k": text}),
    ),
    "a flavor's project": (opened, lambda text: a_flavor(is_public=False, projects=[text])),
    "an image's name": (image(lambda text: {"name": text}), lambda text: one("images", name=text)),
    "an image's owner": (
        image(lambda text: {"owner": text}),
        lambda text: one("images", name="i", owner=text),
    ),
    "an image's property": (
        image(lambda text: {text: "1"}),
        lambda text: one("images", name="i", properties={text: "1"}),
    ),
    "a property's value": (
        image(lambda text: {"k": text * 300}),
        lambda text: one("images", name="i", properties={"k": text * 300}),
    ),
    "an image's tag": (
        image(lambda text: {"tags": [text]}),
        lambda text: one("images", name="i", tags=[text]),
    ),
    "a group's name": (group("name"), lambda text: one("server_groups", **GROUP | {"name": text})),
    "a group's project": (group_of, lambda text: one("server_groups", **GROUP, project=text[:255])),
    "an aggregate's name": (aggregate("name"), lambda text: one("aggregates", name=text)),
    "an aggregate's zone": (
        aggregate("availability_zone"),
        lambda text: one("aggregates", name="g", availability_zone=text),
    ),
    "a key of metadata": (
        described(lambda text: {text: "1"}),
        lambda text: one("aggregates", name="g", metadata={text: "1"}),
    ),
    "a value of metadata": (
        described(lambda text: {"k": text}),
        lambda text: one("aggregates", name="g", metadata={"k": text}),
    ),
}


def loads(cloud, document):
    try:
        cloud.load(to_yaml(document))
    except Invalid:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS)
def test_a_file_takes_just_what_the_face_takes_and_keeps_it(
    sqlite_app, sqlite_settings, sqlite_database, sqlite_url, empty_cloud, field
):
    give, message = FIELDS[field]
    faced, small = Loaded(sqlite_database, sqlite_settings), empty_cloud()
    small_url = small.database.url.render_as_string(hide_password=False)
    for text in TEXTS:
        empty(sqlite_url)
        empty(small_url)
        taken = give(sqlite_app, text).status_int < 300
        if taken:
            small.load(faced.dump())
            assert small.state == faced.state
            empty(small_url)
        assert loads(small, message(text)) == taken, text
