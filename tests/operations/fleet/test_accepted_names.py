# SPDX-License-Identifier: Apache-2.0
"""Names in fleet files: a file accepts exactly the names that the APIs accept."""

from urllib.parse import quote

import pytest

from placement_sched.errors import Invalid
from placement_sched.operations.fleet.names import escape
from placement_sched.operations.fleet.yaml_file import to_yaml
from tests.conftest import empty
from tests.operations.fleet.conftest import LoadableCloud
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


def create_provider(app, name, uuid=ONE, **more):
    return app.post_json(
        "/placement/resource_providers",
        {"name": name, "uuid": uuid, **more},
        headers=LATEST_HEADERS,
        expect_errors=True,
    )


def rename_provider(app, name, uuid=ONE):
    """Rename a provider. The name may be empty."""
    return app.put_json(
        f"/placement/resource_providers/{uuid}",
        {"name": name},
        headers=LATEST_HEADERS,
        expect_errors=True,
    )


def rename_child(app, name):
    create_provider(app, "q")
    create_provider(app, "r", TWO, parent_provider_uuid=ONE)
    return rename_provider(app, name, TWO)


def rename_root(app, name):
    create_provider(app, "q")
    return rename_provider(app, name)


def put_inventory(app, name="q"):
    provider = create_provider(app, name)
    app.put_json(
        f"/placement/resource_providers/{ONE}/inventories",
        {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 9}}},
        headers=LATEST_HEADERS,
        expect_errors=True,
    )
    return provider


def put_allocations(app, uuid=TWO, **changes):
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


def owner_writer(key):
    def give(app, text):
        put_inventory(app)
        return put_allocations(app, **{key: text})

    return give


def put_allocations_of(app, name):
    provider = put_inventory(app, name)
    if provider.status_int == 200:
        assert put_allocations(app).status_int == 204
    return provider


def instance_writer(key):
    return lambda app, text: app.put_json(
        f"/scheduler/v1/instances/{ONE}", {"host": "h", "node": "h", key: text}, expect_errors=True
    )


def report_writer(key):
    return lambda app, text: app.post_json(
        "/scheduler/v1/compute_nodes", [build_report(**{key: text})], expect_errors=True
    )


def disable_service(app, reason):
    report_writer("host")(app, "cn1")
    return app.put_json(
        "/compute/v2.1/os-services/disable-log-reason",
        {"host": "cn1", "binary": "nova-compute", "disabled_reason": reason},
        expect_errors=True,
    )


def post_compute(app, path, body, **headers):
    return app.post_json(
        f"/compute/v2.1/{path}", body, headers=AT_COMPUTE | headers, expect_errors=True
    )


def flavor_writer(key):
    return lambda app, text: post_compute(app, "flavors", {"flavor": FLAVOR | {key: text}})


def extra_specs_writer(specs):
    def give(app, text):
        flavor_writer("name")(app, "f")
        return post_compute(app, "flavors/f/os-extra_specs", {"extra_specs": specs(text)})

    return give


def add_flavor_access(app, project):
    flavor_writer("os-flavor-access:is_public")(app, False)
    return post_compute(app, "flavors/f/action", {"addTenantAccess": {"tenant": project}})


def group_writer(key):
    return lambda app, text: post_compute(
        app, "os-server-groups", {"server_group": GROUP | {key: text}}
    )


def create_group_of(app, project):
    return post_compute(
        app, "os-server-groups", {"server_group": GROUP}, **{"X-Project-Id": project[:255]}
    )


def aggregate_writer(key):
    return lambda app, text: post_compute(
        app, "os-aggregates", {"aggregate": {"name": "g", key: text}}
    )


def metadata_writer(metadata):
    def give(app, text):
        aggregate = aggregate_writer("name")(app, "g").json["aggregate"]["id"]
        action = {"set_metadata": {"metadata": metadata(text)}}
        return post_compute(app, f"os-aggregates/{aggregate}/action", action)

    return give


def image_writer(body):
    return lambda app, text: app.post_json(
        "/image/v2/images", {"name": "i", **body(text)}, expect_errors=True
    )


def tag_image(app, tag):
    image = image_writer(lambda _: {})(app, "").json["id"]
    return app.put(f"/image/v2/images/{image}/tags/{quote(tag, safe='')}", expect_errors=True)


def allocation_document(**owner):
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


def provider_document(name):
    return {
        "providers": [{**PROVIDER, "name": escape(name)}],
        "allocations": [
            {"consumer": TWO, "project": "p", "user": "u", "allocations": {name: {"VCPU": 1}}}
        ],
    }


def single_entry_document(section, **entry):
    return {section: [entry]}


def instance_document(**entry):
    return single_entry_document("instances", **{"name": "n", **entry})


def host_document(**entry):
    return single_entry_document("hosts", **{"host": "cn1", **SIZES, **entry})


def flavor_document(**entry):
    return single_entry_document("flavors", **{"name": "f", **SIZES, **entry})


#: A request that writes a name, and a fleet document with this name.
FIELDS = {
    "a provider's name": (
        rename_root,
        lambda text: single_entry_document("providers", name=escape(text)),
    ),
    "the name of a child": (
        rename_child,
        lambda text: single_entry_document(
            "providers", name="q", providers=[{"name": escape(text)}]
        ),
    ),
    "the provider's name in allocations": (put_allocations_of, provider_document),
    "a consumer's project": (
        owner_writer("project_id"),
        lambda text: allocation_document(project=text),
    ),
    "a consumer's user": (owner_writer("user_id"), lambda text: allocation_document(user=text)),
    "a consumer's type": (
        owner_writer("consumer_type"),
        lambda text: allocation_document(type=text),
    ),
    "an instance's name": (
        instance_writer("display_name"),
        lambda text: instance_document(name=escape(text)),
    ),
    "an instance's host": (
        instance_writer("host"),
        lambda text: instance_document(host=escape(text)),
    ),
    "an instance's node": (
        instance_writer("node"),
        lambda text: instance_document(node=escape(text)),
    ),
    "an instance's project": (
        instance_writer("project_id"),
        lambda text: instance_document(project=text),
    ),
    "an instance's user": (instance_writer("user_id"), lambda text: instance_document(user=text)),
    "an instance's state": (
        instance_writer("vm_state"),
        lambda text: instance_document(vm_state=text),
    ),
    "an instance's task": (
        instance_writer("task_state"),
        lambda text: instance_document(task_state=text),
    ),
    "a host": (report_writer("host"), lambda text: host_document(host=escape(text), node="cn1")),
    "a node": (report_writer("hypervisor_hostname"), lambda text: host_document(node=escape(text))),
    "a hypervisor's type": (
        report_writer("hypervisor_type"),
        lambda text: host_document(hypervisor_type=text),
    ),
    "a host's address": (
        report_writer("host_ip"),
        lambda text: host_document(host_ip=escape(text)),
    ),
    "a service's reason": (
        disable_service,
        lambda text: single_entry_document(
            "services", host="cn1", status="disabled", disabled_reason=text
        ),
    ),
    "a flavor's name": (flavor_writer("name"), lambda text: flavor_document(name=text)),
    "a flavor's id": (flavor_writer("id"), lambda text: flavor_document(id=text)),
    "a flavor's description": (
        flavor_writer("description"),
        lambda text: flavor_document(description=text),
    ),
    "an extra spec's key": (
        extra_specs_writer(lambda text: {text: "1"}),
        lambda text: flavor_document(extra_specs={text: "1"}),
    ),
    "an extra spec's value": (
        extra_specs_writer(lambda text: {"k": text}),
        lambda text: flavor_document(extra_specs={"k": text}),
    ),
    "a flavor's project": (
        add_flavor_access,
        lambda text: flavor_document(is_public=False, projects=[text]),
    ),
    "an image's name": (
        image_writer(lambda text: {"name": text}),
        lambda text: single_entry_document("images", name=text),
    ),
    "an image's owner": (
        image_writer(lambda text: {"owner": text}),
        lambda text: single_entry_document("images", name="i", owner=text),
    ),
    "an image's property": (
        image_writer(lambda text: {text: "1"}),
        lambda text: single_entry_document("images", name="i", properties={text: "1"}),
    ),
    "a property's value": (
        image_writer(lambda text: {"k": text * 300}),
        lambda text: single_entry_document("images", name="i", properties={"k": text * 300}),
    ),
    "an image's tag": (
        image_writer(lambda text: {"tags": [text]}),
        lambda text: single_entry_document("images", name="i", tags=[text]),
    ),
    "a group's name": (
        group_writer("name"),
        lambda text: single_entry_document("server_groups", **GROUP | {"name": text}),
    ),
    "a group's project": (
        create_group_of,
        lambda text: single_entry_document("server_groups", **GROUP, project=text[:255]),
    ),
    "an aggregate's name": (
        aggregate_writer("name"),
        lambda text: single_entry_document("aggregates", name=text),
    ),
    "an aggregate's zone": (
        aggregate_writer("availability_zone"),
        lambda text: single_entry_document("aggregates", name="g", availability_zone=text),
    ),
    "a key of metadata": (
        metadata_writer(lambda text: {text: "1"}),
        lambda text: single_entry_document("aggregates", name="g", metadata={text: "1"}),
    ),
    "a value of metadata": (
        metadata_writer(lambda text: {"k": text}),
        lambda text: single_entry_document("aggregates", name="g", metadata={"k": text}),
    ),
}


def can_load(cloud, document):
    try:
        cloud.load(to_yaml(document))
    except Invalid:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS)
def test_file_accepts_the_same_names_as_the_api(
    sqlite_app, sqlite_settings, sqlite_database, sqlite_url, empty_cloud, field
):
    send, document = FIELDS[field]
    written, loaded = LoadableCloud(sqlite_database, sqlite_settings), empty_cloud()
    loaded_url = loaded.database.url.render_as_string(hide_password=False)
    for text in TEXTS:
        empty(sqlite_url)
        empty(loaded_url)
        is_accepted = send(sqlite_app, text).status_int < 300
        if is_accepted:
            loaded.load(written.dump())
            assert loaded.state == written.state
            empty(loaded_url)
        assert can_load(loaded, document(text)) == is_accepted, text
