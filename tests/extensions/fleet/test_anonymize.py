# SPDX-License-Identifier: Apache-2.0
"""An anonymised cloud gives the same answers, and contains no name."""

import json
import re
import shutil
from collections import Counter
from random import Random

import pytest
import yaml

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.extensions.fleet.anonymize import NamesTranslator
from placement_sched.extensions.fleet.anonymize_command import dump_anonymised
from placement_sched.extensions.fleet.names import Names
from placement_sched.model.clock import utcnow
from placement_sched.operations.fleet.load import dump_file, load_file
from placement_sched.schemas.yaml_file import to_yaml
from tests.conftest import make_settings
from tests.extensions.fleet import named_clouds
from tests.extensions.fleet.small_clouds import SMALL_CLOUDS

#: All filters that read names, and options of request filters and weighers that read names.
OPTIONS = {
    "filter_scheduler__enabled_filters": [
        "ComputeFilter",
        "AvailabilityZoneFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "ServerGroupAntiAffinityFilter",
        "ServerGroupAffinityFilter",
        "SameHostFilter",
        "DifferentHostFilter",
        "SimpleCIDRAffinityFilter",
        "JsonFilter",
        "RetryFilter",
        "TopologySpreadFilter",
        "AggregateInstanceExtraSpecsFilter",
        "AggregateMultiTenancyIsolation",
        "AggregateTypeAffinityFilter",
        "AggregateImagePropertiesIsolation",
        "AggregateCoreFilter",
        "PciPassthroughFilter",
        "NUMATopologyFilter",
    ],
    "filter_scheduler__image_props_weight_multiplier": 1.0,
    "scheduler__enable_isolated_aggregate_filtering": True,
    "scheduler__limit_tenants_to_placement_aggregate": True,
    "scheduler__required_aggregates_by_trait": "prefer",
}


@pytest.fixture
def make_cloud(sqlite_template, tmp_path, make_app):
    """Return a function that loads a fleet file."""

    def load_cloud(name: str, text: str):
        path = tmp_path / f"{name}.db"
        shutil.copy(sqlite_template, path)
        settings = make_settings(f"sqlite:///{path}", **OPTIONS)
        with Database(settings) as database:
            load_file(database, settings, utcnow, text, name, dry_run=False)
        return settings, make_app(settings)

    return load_cloud


def dump(settings: Settings, names=None) -> str:
    """Dump a cloud, anonymised with a file of names."""
    with Database(settings) as database:
        if names is None:
            return dump_file(database, settings, utcnow)
        return dump_anonymised(database, settings, names)


def post_request(client, path, body):
    """Return status and response of the scheduler API, without times and ids."""
    response = client.post_json(f"/scheduler/v1/{path}", body, expect_errors=True)
    document = response.json
    for report in document.get("funnel", {}).get("request_filters", ()):
        del report["elapsed_ms"]
    for error in document.get("errors", ()):
        del error["request_id"]
    return response.status_int, document


def list_texts(document):
    """Yield all keys and texts of a JSON document."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from list_texts(value)
    elif isinstance(document, list):
        for value in document:
            yield from list_texts(value)
    elif isinstance(document, str):
        yield document


def compare_explanations(make_cloud, tmp_path, seeds, request_count):
    """Compare random explanations, and yield their outcomes."""
    for seed in seeds:
        random, file = Random(seed), tmp_path / f"names{seed}.json"
        document = named_clouds.draw_cloud(random)
        settings, client = make_cloud(f"original{seed}", to_yaml(document))
        _, anonymous_client = make_cloud(f"anonymous{seed}", dump(settings, file))
        translator = NamesTranslator(Names.read(file))
        for _ in range(request_count):
            body = named_clouds.draw_request(random, document)
            status, expected = post_request(client, "explain", body)
            answer = post_request(anonymous_client, "explain", translator.convert(body))
            assert (answer[0], translator.restore(answer[1])) == (status, expected), body
            yield expected.get("outcome")


def test_an_anonymised_cloud_gives_the_same_answers(make_cloud, tmp_path):
    outcomes = compare_explanations(make_cloud, tmp_path, range(1), 20)
    assert set(outcomes) == {"selected", "no_valid_host"}


@pytest.mark.exhaustive
def test_500_answers_of_anonymised_clouds_equal_the_originals(make_cloud, tmp_path):
    outcomes = Counter(compare_explanations(make_cloud, tmp_path, range(1, 11), 50))
    assert sum(outcomes.values()) == 500
    assert min(outcomes["selected"], outcomes["no_valid_host"]) > 100


@pytest.mark.slow
@pytest.mark.parametrize("cloud", SMALL_CLOUDS)
def test_a_small_anonymised_cloud_gives_the_same_answers(make_cloud, tmp_path, cloud):
    file = tmp_path / "names.json"
    settings, client = make_cloud("original", SMALL_CLOUDS[cloud])
    _, anonymous_client = make_cloud("anonymous", dump(settings, file))
    names = Names.read(file)
    translator = NamesTranslator(names)
    for path, body in list_questions(sorted(names.labels["host"])):
        expected = post_request(client, path, body)
        status, answer = post_request(anonymous_client, path, translator.convert(body))
        assert (status, translator.restore(answer)) == expected, (path, body)


def list_questions(hosts):
    """Yield paths and bodies of questions about a small cloud."""
    small = {"vcpus": 1, "memory_mb": 512, "root_gb": 10}
    large = {"vcpus": 10, "memory_mb": 10000, "root_gb": 60}
    required = {"extra_specs": {"resources1:VGPU": "1", "trait1:CUSTOM_FAST": "required"}}
    pinned = {"extra_specs": {"hw:cpu_policy": "dedicated"}}
    specs = [{"flavor": flavor} for flavor in (small, large, small | required, small | pinned)]
    specs += [{"flavor": small, "availability_zone": "az1"}, {"flavor": small, "num_instances": 9}]
    for spec in specs:
        yield "explain", {"request_spec": spec, "max_rejected": 0}
        yield "explain", {"request_spec": spec, "hosts": hosts}
        yield "capacity", {"request_spec": spec, "per": "zone"}
    yield "plan", {"changes": [{"drain": hosts[:1]}], "flavors": ["small"]}
    yield "capacity", {"request_spec": {"flavor": small}, "host_failures": 1}


@pytest.mark.parametrize("seed", range(3))
def test_no_name_occurs_in_an_anonymised_file(make_cloud, tmp_path, seed):
    document, file = named_clouds.draw_cloud(Random(seed)), tmp_path / "names.json"
    text = dump(make_cloud("original", to_yaml(document))[0], file)
    texts = set(list_texts(yaml.safe_load(text)))
    labels = json.loads(file.read_text())["names"]
    assert not texts & {name for of_kind in labels.values() for name in of_kind}
    originals = set(list_texts(yaml.safe_load(to_yaml(document))))
    unchanged = texts & originals
    assert not {name for name in unchanged if re.search("acme|blue|hall|golden|DIMM", name)} - {
        "acme_level",
        "capabilities:stats:acme_level",
    }
    assert {"hw:cpu_policy", "QEMU", "DISK_GB", "MISC_SHARES_VIA_AGGREGATE"} & unchanged
    for zone, label in labels["zone"].items():
        assert label == f"az{sorted(labels['zone']).index(zone) + 1}"


def test_two_files_with_the_same_names_are_consistent(make_cloud, tmp_path):
    file = tmp_path / "names.json"
    document = named_clouds.draw_cloud(Random(2))
    first = dump(make_cloud("first", to_yaml(document))[0], file)
    old_file = json.loads(file.read_text())
    document["hosts"].append({"host": "acme-kvm11", "vcpus": 1, "memory_mb": 1})
    document["aggregates"][0]["metadata"] = {"filter_tenant_id": "acme,newcomer"}
    settings = make_cloud("second", to_yaml(document))[0]
    second, after = dump(settings, file), json.loads(file.read_text())
    assert old_file["key"] == after["key"]
    for kind, labels in old_file["names"].items():
        assert labels.items() <= after["names"][kind].items()
    assert set(after["names"]["host"]) - set(old_file["names"]["host"]) == {"acme-kvm11"}
    assert sorted(after["names"]["host"].values()) == [
        label for _, label in sorted(after["names"]["host"].items())
    ]
    assert second == dump(settings, file)
    # Another file of names has another key, and so other labels.
    other_text = dump(settings, tmp_path / "other.json")
    assert not set(re.findall("host-[0-9a-f]{8}", other_text)) & set(
        re.findall("host-[0-9a-f]{8}", first)
    )
