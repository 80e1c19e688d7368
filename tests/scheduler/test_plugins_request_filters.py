# SPDX-License-Identifier: Apache-2.0
"""Third-party request filters, and the order of all request filters."""

import sys

import pytest

from placement_sched.config.conf import new_conf
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.scheduler.live_settings import with_overrides
from placement_sched.scheduler.plugins import plugins_for, read_settings
from placement_sched.scheduler.request_filters import ORDER, all_request_filters
from tests.scheduler.explanations import explain_request, put_hosts
from tests.support.scheduling import spec
from tests.support.states import settings_with

ACME = "tests.scheduler.third_party"
OURS = "placement_sched.scheduler.request_filters"
ALL = f"{OURS}.all_request_filters"
SHIPPED = [kind.name for kind in all_request_filters()]


def settings_with_filters(*names):
    return settings_with(scheduler__request_filters=list(names))


def filter_order(*names):
    """Return the names of the request filters in the order of their runs."""
    return [plugin.name for plugin in plugins_for(settings_with_filters(*names)).request_filters]


def shipped_filters_without(*names):
    return [name for name in SHIPPED if name not in names]


def test_shipped_order_is_that_of_nova_and_then_ours():
    assert filter_order() == [name for name in ORDER if name in SHIPPED]
    assert SHIPPED[-1] == "required_aggregates_by_trait"


#: The options that enable request filters. They are false by default.
OPTIONS = {
    "forbidden_aggregates": "enable_isolated_aggregate_filtering",
    "require_image_type_support": "query_placement_for_image_type_support",
    "require_tenant_aggregate": "limit_tenants_to_placement_aggregate",
    "routed_networks_filter": "query_placement_for_routed_network_aggregates",
    "transform_image_metadata": "image_metadata_prefilter",
}


def test_filters_are_always_enabled_or_by_their_option():
    for kind in all_request_filters():
        plugin, option = kind(), OPTIONS.get(kind.name)
        is_default = option is None and kind.name != "required_aggregates_by_trait"
        assert plugin.enabled(settings_with()) is is_default, kind
        if option is not None:
            assert plugin.enabled(settings_with(**{f"scheduler__{option}": True})), kind


@pytest.mark.parametrize(
    ("names", "last"),
    [
        (["forbidden_aggregates"], ["forbidden_aggregates"]),
        (["isolate_aggregates"], ["forbidden_aggregates"]),
        (["ForbiddenAggregates"], ["forbidden_aggregates"]),
        ([f"{OURS}.forbidden_aggregates.ForbiddenAggregates"], ["forbidden_aggregates"]),
        (
            ["owner_nova_filter", "isolate_aggregates", "RequireTenantAggregate"],
            ["owner_nova_filter", "forbidden_aggregates", "require_tenant_aggregate"],
        ),
        (
            ["isolate_aggregates", "compute_status_filter", "forbidden_aggregates"],
            ["forbidden_aggregates", "compute_status_filter"],
        ),
        ([f"{ACME}.AcmeTrait", "isolate_aggregates"], ["acme_trait", "forbidden_aggregates"]),
    ],
    ids=str,
)
def test_configured_filters_run_last_in_their_order(names, last):
    assert filter_order(*names) == [*shipped_filters_without(*last), *last]


def test_run_has_the_configured_order(sqlite_app):
    answer = explain_request(
        sqlite_app, spec(), scheduler__request_filters=["isolate_aggregates", "ComputeStatusFilter"]
    )
    last = ["forbidden_aggregates", "compute_status_filter"]
    assert answer.order == [*shipped_filters_without(*last), *last]
    assert filter_order(f"{ACME}.AcmeTrait", ALL) == ["acme_trait", *SHIPPED]


@pytest.fixture
def make_app_with(sqlite_url, make_app, tmp_path):
    """Return a function that creates a client of a server with a configuration file."""

    def build_app(text=""):
        file = tmp_path / "acme.conf"
        file.write_text(f"[placement_database]\nconnection = {sqlite_url}\n{text}")
        return make_app(read_settings([str(file)], new_conf()))

    return build_app


def test_third_party_plugin_named_by_its_path_narrows_requests(make_app_with):
    app = make_app_with(f"[scheduler]\nrequest_filters = {ACME}.AcmeTrait\n")
    put_hosts(app, cn1=["CUSTOM_ACME"], cn2=[])
    answer = explain_request(app, spec())
    assert answer.order == [*SHIPPED, "acme_trait"]
    assert answer.filter_report("acme_trait") == {
        "applied": True,
        "changes": {"root_required": ["CUSTOM_ACME"]},
    }
    assert answer.hosts == ["cn1"]


def test_filter_of_an_installed_package_runs_after_the_shipped_filters(
    install_package, make_app_with
):
    install_package(f"[placement_sched.request_filters]\nacme = {ACME}:AcmeTrait\n")
    app = make_app_with("[acme_requests]\ntrait = CUSTOM_ACME\n")
    put_hosts(app, cn1=["CUSTOM_ACME"], cn2=[])
    answer = explain_request(app, spec())
    assert answer.order == [*SHIPPED, "acme_trait"]
    assert answer.hosts == ["cn1"]


@pytest.mark.parametrize("name", ["acme_trait", "acme_label", "AcmeTrait", f"{ACME}.AcmeTrait"])
def test_filter_of_an_installed_package_may_have_any_of_its_names(install_package, name):
    install_package(f"[placement_sched.request_filters]\nacme = {ACME}:AcmeTrait\n")
    assert filter_order(name, "compute_status_filter") == [
        *shipped_filters_without("compute_status_filter"),
        "acme_trait",
        "compute_status_filter",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ForbidenAggregates", "did you mean 'ForbiddenAggregates'?"),
        ("zzz", "unknown request filter 'zzz'"),
        ("acme_trait", "unknown request filter 'acme_trait'"),
        (
            f"{OURS}.forbidden_aggregates.ForbidenAggregates",
            f"did you mean '{OURS}.forbidden_aggregates.ForbiddenAggregates'?",
        ),
        (f"{ACME}.acme_filters", "acme_filters is not a BaseRequestFilter"),
        (f"{OURS}.require_aggregates", "require_aggregates returns no classes"),
        (f"{OURS}.BaseRequestFilter", "BaseRequestFilter is the abstract base class"),
        ("nova.scheduler.filters.compute_filter.ComputeFilter", "there is no "),
    ],
)
def test_error_for_a_wrong_name_names_the_option(name, words):
    with pytest.raises(ConfigurationError) as error:
        filter_order("compute_status_filter", name)
    assert error.value.detail.startswith("[scheduler] request_filters: ")
    assert words in error.value.detail
    assert "\n" not in error.value.detail


@pytest.fixture
def traced_module(tmp_path, monkeypatch):
    """Return the path of a class in a module whose import leaves a file."""
    trace = tmp_path / "imported"
    (tmp_path / "bomb.py").write_text(
        f"open({str(trace)!r}, 'w').close()\nfrom {ACME} import AcmeTrait as Bomb\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "bomb.Bomb", trace
    sys.modules.pop("bomb", None)


def test_overrides_import_no_code(sqlite_app, traced_module):
    path, trace = traced_module
    for value in ([path], path, ["compute_status_filter", path]):
        body = {"request_spec": spec(), "overrides": {"scheduler.request_filters": value}}
        answer = sqlite_app.post_json("/scheduler/v1/explain", body, status=400)
        (error,) = answer.json["errors"]
        assert f"scheduler.request_filters: '{path}'" in error["detail"]
    assert not trace.exists()
    # The configuration may import the same path.
    assert filter_order(path)[-1] == "acme_trait"
    assert trace.exists()


def test_overrides_may_use_the_filters_of_the_configuration():
    path = f"{ACME}.AcmeTrait"
    running = settings_with_filters(path)
    request = {"scheduler.request_filters": ["compute_status_filter", path]}
    changed = with_overrides(running, request)
    assert [request_filter.name for request_filter in plugins_for(changed).request_filters][
        -2:
    ] == ["compute_status_filter", "acme_trait"]
    with pytest.raises(Invalid):
        with_overrides(settings_with_filters(), request)
