# SPDX-License-Identifier: Apache-2.0
"""Names that the shim lacks are reported even if a plugin hides the error."""

import logging
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from placement_sched.cli.scheduler.render_explanation import _render_stage
from placement_sched.explain.reader import format_missing_names
from placement_sched.extensions.nova_plugins import finder, objects
from placement_sched.extensions.nova_plugins.missing import describe_missing
from placement_sched.extensions.nova_plugins.plugin_check import load_classes, try_classes
from placement_sched.extensions.nova_plugins.report_client import SchedulerReportClient
from placement_sched.model.context import RequestContext
from placement_sched.model.instance import HostInstance
from placement_sched.scheduler import plugin
from tests.conftest import make_settings
from tests.support.scheduling import FLAVOR, make_report, make_spec, make_uuid

PLUGIN_TEXT = """
from nova import objects
from nova.scheduler import filters, weights
from nova.scheduler.client import report


class HidingFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        try:
            report.SchedulerReportClient().put("/traits/CUSTOM_X", {})
        except Exception:
            return True
        return False


class HidingWeigher(weights.BaseHostWeigher):
    def _weigh_object(self, host_state, spec_obj):
        return len(getattr(objects, "InstanceActionList", ()))


class CreatedFilter(filters.BaseHostFilter):
    def __init__(self):
        self.find = self.read_finder()

    def read_finder(self):
        try:
            return objects.ComputeNodeList.get_by_pagination
        except AttributeError:
            return None

    def host_passes(self, host_state, spec_obj):
        return True
"""
PUT = "SchedulerReportClient.put"
ACTIONS = "nova.objects.InstanceActionList"
PAGINATION = "nova.objects.ComputeNodeList.get_by_pagination"


@pytest.fixture
def plugin_file(nova_shim, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    plugin.log_missing_once.cache_clear()
    file = tmp_path / "hiding_plugins.py"
    file.write_text(PLUGIN_TEXT)
    yield file
    sys.modules.pop("hiding_plugins", None)


@pytest.fixture
def explain(plugin_file, sqlite_url, make_app):
    names = ("HidingFilter", "CreatedFilter")
    settings = make_settings(
        sqlite_url,
        filter_scheduler__nova_shim=True,
        filter_scheduler__available_filters=[f"hiding_plugins.{name}" for name in names],
        filter_scheduler__enabled_filters=list(names),
        filter_scheduler__weight_classes=["hiding_plugins.HidingWeigher"],
    )
    app = make_app(settings)
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    return lambda: app.post_json("/scheduler/v1/explain", {"request_spec": make_spec()}).json


def test_missing_name_whose_error_a_plugin_hides_marks_its_row_in_the_funnel(explain):
    for _ in range(2):
        funnel = explain()["funnel"]
        names = {row["name"]: row.get("missing_names") for row in funnel["filters"]}
        assert names == {"HidingFilter": [PUT], "CreatedFilter": [PAGINATION]}
        assert funnel["weighers"][0]["missing_names"] == [ACTIONS]


def test_missing_name_is_logged_once_with_file_and_line(explain, plugin_file, caplog):
    with caplog.at_level(logging.WARNING):
        explain()
        explain()
    place = f"{plugin_file}:10: {PUT} is not provided here: plugins can only read placement"
    assert [text.startswith(place) for text in caplog.messages].count(True) == 1


def test_plugin_check_lists_missing_names_whose_error_is_hidden(plugin_file):
    settings = make_settings("sqlite://", filter_scheduler__nova_shim=True)
    findings = try_classes(load_classes("hiding_plugins"), settings)
    problems = [(each.line, each.subject) for each in findings if each.problem]
    assert problems == [(10, PUT), (18, ACTIONS), (27, PAGINATION)]
    assert "its results may differ from nova's" in findings[0].problem


def test_explanation_shows_the_missing_names_of_a_filter():
    row = {"before": 2, "after": 2, "missing_names": [PUT]}
    text = format_missing_names(row)
    assert text == f"may differ from nova: it reads {PUT}, missing here"
    lines = _render_stage("HidingFilter", row, "green").renderables
    assert [str(line) for line in lines] == ["HidingFilter", text]


def test_check_of_a_source_records_no_missing_name(plugin_file):
    with plugin.collect_missing() as reads:
        names = [each.name for each in finder.list_names(PLUGIN_TEXT) if not each.is_provided]
    assert PAGINATION in names
    assert not reads


def test_modules_of_the_shim_record_no_missing_name():
    spec = spec_from_file_location("objects_again", objects.__file__)
    with plugin.collect_missing() as reads:
        spec.loader.exec_module(module_from_spec(spec))
    assert not reads


def test_names_of_the_checks_before_the_log_are_logged_by_a_request(explain, plugin_file, caplog):
    explain()
    plugin.log_missing_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        explain()
    places = {text.partition(" ")[0] for text in caplog.messages}
    assert {f"{plugin_file}:{line}:" for line in (10, 18, 27)} <= places


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nova.objects.Flavor.get_by_flavor_id", "the request has only a part of its flavor"),
        ("nova.objects.flavor.FlavorList", "the request has only a part of its flavor"),
        ("nova.objects.KeyPair", "only a part of hosts"),
        ("nova.db.aggregate_metadata_get_all_by_key", "only the functions that the guide lists"),
    ],
)
def test_message_about_a_missing_name_has_the_true_reason(name, reason):
    assert f"{name} is not provided here: {reason}" in describe_missing(name)


def test_guide_lists_the_methods_of_the_placement_client_and_the_database():
    guide = Path("doc/source/bring_your_filters.rst").read_text()
    names = {name for name in vars(SchedulerReportClient) if "get" in name and name[:2] != "__"}
    names |= {name for name in vars(objects) if name.startswith(("aggregate_", "instance_"))}
    assert [name for name in sorted(names) if f"``{name}``" not in guide] == []


ATTRIBUTES_TEXT = """
from nova import objects
from nova.scheduler import filters


class AttributesFilter(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        context = spec_obj._context
        instance = objects.InstanceList.get_by_host(context, host_state.host)[0]
        for read in (
            lambda: instance.locked,
            lambda: instance.get("availability_zone"),
            lambda: instance["ephemeral_key_uuid"],
            lambda: objects.Service.get_by_compute_host(context, "cn1").availability_zone,
            lambda: objects.ComputeNode.get_by_uuid(context, host_state.uuid).service_id,
            lambda: objects.Flavor.get_by_id(context, 1),
            lambda: spec_obj.flavor.projects,
            lambda: spec_obj.image.direct_url,
            lambda: spec_obj.get_request_group_mapping(),
            lambda: context.service_catalog,
            lambda: objects.InstanceList.get_by_host(context, "cn1").get_counts,
            # Names that exist, private names, and tests whether a field is set.
            lambda: instance.power_state,
            lambda: instance._context,
            lambda: "locked" in instance or instance.obj_attr_is_set("locked"),
        ):
            try:
                read()
            except Exception:
                pass
        return True
"""


def test_missing_attribute_of_an_object_marks_the_row_of_its_reader(
    plugin_file, sqlite_url, make_app
):
    plugin_file.write_text(ATTRIBUTES_TEXT)
    settings = make_settings(
        sqlite_url,
        filter_scheduler__nova_shim=True,
        filter_scheduler__available_filters=["hiding_plugins.AttributesFilter"],
        filter_scheduler__enabled_filters=["AttributesFilter"],
    )
    app = make_app(settings)
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    instance = {"host": "cn1", "node": "cn1", "project_id": "p1", "user_id": "u1", "flavor": FLAVOR}
    app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", instance)
    explanation = app.post_json("/scheduler/v1/explain", {"request_spec": make_spec()}).json
    assert explanation["funnel"]["filters"][0]["missing_names"] == [
        "nova.objects.Instance.locked",
        "nova.objects.Instance.availability_zone",
        "nova.objects.Instance.ephemeral_key_uuid",
        "nova.objects.Service.availability_zone",
        "nova.objects.ComputeNode.service_id",
        "nova.objects.Flavor.get_by_id",
        "nova.objects.Flavor.projects",
        "nova.objects.ImageMeta.direct_url",
        "nova.objects.RequestSpec.get_request_group_mapping",
        "nova.context.RequestContext.service_catalog",
        "nova.objects.InstanceList.get_counts",
    ]


def test_missing_attribute_without_the_shim_is_a_plain_error():
    with plugin.collect_missing() as reads, pytest.raises(AttributeError, match="no attribute"):
        HostInstance(uuid=make_uuid(1)).locked  # noqa: B018 - the read is tested
    assert not reads


def test_log_line_with_a_context_records_no_missing_name(nova_shim):
    record = logging.makeLogRecord(
        {"msg": "x", "level": logging.INFO, "levelno": logging.INFO, "context": RequestContext()}
    )
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([])
    with plugin.collect_missing() as reads:
        ContextFormatter(config=conf).format(record)
    assert not reads
