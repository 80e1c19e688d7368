# SPDX-License-Identifier: Apache-2.0
"""Request filters of strangers, and the order in which all of them run."""

import sys

import pytest

from placement_sched.cli.main import main
from placement_sched.config.conf import new_conf
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.scheduler.live_settings import with_overrides
from placement_sched.scheduler.plugins import plugins_for, read_settings
from placement_sched.scheduler.request_filters import ORDER, all_request_filters
from tests.scheduler.explained import explained, put_hosts
from tests.support.scheduling import spec
from tests.support.states import settings_with

ACME = "tests.scheduler.third_party"
OURS = "placement_sched.scheduler.request_filters"
ALL = f"{OURS}.all_request_filters"
SHIPPED = [kind.name for kind in all_request_filters()]


def settings_naming(*named):
    return settings_with(scheduler__request_filters=list(named))


def order(*named):
    """Return the names of the request filters in the order in which they run."""
    return [plugin.name for plugin in plugins_for(settings_naming(*named)).request_filters]


def without(*names):
    return [name for name in SHIPPED if name not in names]


# Order


def test_shipped_order_is_novas_with_ours_behind():
    assert order() == [name for name in ORDER if name in SHIPPED]
    assert SHIPPED[-1] == "required_aggregates_by_trait"


@pytest.mark.parametrize(
    ("named", "last"),
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
    ids=[
        "name",
        "nova's name",
        "class name",
        "path",
        "several ways",
        "twice counts once",
        "stranger first",
    ],
)
def test_those_named_run_last_in_their_order_and_none_goes(named, last):
    assert order(*named) == [*without(*last), *last]


def test_all_that_are_shipped_may_be_named_at_once():
    assert order(f"{ACME}.AcmeTrait", ALL) == ["acme_trait", *SHIPPED]
    assert order("owner_nova_filter", ALL) == ["owner_nova_filter", *without("owner_nova_filter")]


def test_order_of_the_run_is_the_one_configured(sqlite_app):
    told = explained(
        sqlite_app, spec(), scheduler__request_filters=["isolate_aggregates", "ComputeStatusFilter"]
    )
    last = ["forbidden_aggregates", "compute_status_filter"]
    assert told.order == [*without(*last), *last]


# Strangers


@pytest.fixture
def app_of(sqlite_url, make_app, tmp_path):
    """Give a function that makes a client of a server with these lines in its file."""

    def make(text=""):
        file = tmp_path / "acme.conf"
        file.write_text(f"[placement_database]\nconnection = {sqlite_url}\n{text}")
        return make_app(read_settings([str(file)], new_conf()))

    return make


def test_stranger_named_by_its_path_narrows_requests(app_of):
    app = app_of(f"[scheduler]\nrequest_filters = {ACME}.AcmeTrait\n")
    put_hosts(app, cn1=["CUSTOM_ACME"], cn2=[])
    told = explained(app, spec())
    assert told.order == [*SHIPPED, "acme_trait"]
    assert told.told_by("acme_trait") == {
        "applied": True,
        "changes": {"root_required": ["CUSTOM_ACME"]},
    }
    assert told.hosts == ["cn1"]


def test_strangers_options_are_read_from_the_file_and_overridden(tmp_path):
    file = tmp_path / "acme.conf"
    file.write_text(
        f"[scheduler]\nrequest_filters = {ACME}.AcmeTrait\n[acme_requests]\ntrait = CUSTOM_LABEL\n"
    )
    settings = read_settings([str(file)], new_conf())
    assert plugins_for(settings).request_filters[-1].settings.acme_requests.trait == "CUSTOM_LABEL"
    changed = with_overrides(settings, {"acme_requests.trait": "CUSTOM_OTHER"})
    assert plugins_for(changed).request_filters[-1].settings.acme_requests.trait == "CUSTOM_OTHER"


def test_installed_package_announces_one_that_runs_after_the_shipped(installed, app_of):
    installed(f"[placement_sched.request_filters]\nacme = {ACME}:AcmeTrait\n")
    app = app_of("[acme_requests]\ntrait = CUSTOM_ACME\n")
    put_hosts(app, cn1=["CUSTOM_ACME"], cn2=[])
    told = explained(app, spec())
    assert told.order == [*SHIPPED, "acme_trait"]
    assert told.hosts == ["cn1"]


@pytest.mark.parametrize("name", ["acme_trait", "acme_label", "AcmeTrait", f"{ACME}.AcmeTrait"])
def test_announced_one_is_ordered_by_any_of_its_names(installed, name):
    installed(f"[placement_sched.request_filters]\nacme = {ACME}:AcmeTrait\n")
    assert order(name, "compute_status_filter") == [
        *without("compute_status_filter"),
        "acme_trait",
        "compute_status_filter",
    ]


# What is wrong


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "isolate_agregates",
            "unknown request filter 'isolate_agregates'; did you mean 'isolate_aggregates'?",
        ),
        ("ForbidenAggregates", "did you mean 'ForbiddenAggregates'?"),
        ("zzz", "unknown request filter 'zzz'"),
        ("acme_trait", "unknown request filter 'acme_trait'"),
        (
            f"{OURS}.forbidden_aggregates.ForbidenAggregates",
            f"did you mean '{OURS}.forbidden_aggregates.ForbiddenAggregates'?",
        ),
        ("no.such.Filter", "'no.such.Filter' cannot be imported"),
        (f"{ACME}.AcmeFilter", "AcmeFilter is not a BaseRequestFilter"),
        (f"{ACME}.acme_filters", "acme_filters is not a BaseRequestFilter"),
        (f"{OURS}.require_aggregates", "require_aggregates returns no classes"),
        (f"{OURS}.BaseRequestFilter", "BaseRequestFilter is the abstract base class"),
        ("nova.scheduler.filters.compute_filter.ComputeFilter", "there is no "),
    ],
)
def test_wrong_name_ends_the_start_in_one_line(name, words, tmp_path, capsys):
    file = tmp_path / "wrong.conf"
    file.write_text(f"[scheduler]\nrequest_filters = compute_status_filter,{name}\n")
    with pytest.raises(ConfigurationError) as seen:
        read_settings([str(file)], new_conf())
    assert "[scheduler] request_filters: " in seen.value.detail
    assert words in seen.value.detail
    assert main(["serve", "--port", "0", "--config-file", str(file)]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_module_that_cannot_be_run_ends_the_start_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "half_written.py").write_text("class Half(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=r"half_written\.Half' cannot be imported") as seen:
        plugins_for(settings_naming("half_written.Half"))
    assert "\n" not in seen.value.detail


# Overrides of a request


@pytest.fixture
def bomb(tmp_path, monkeypatch):
    """Give the path of a class whose module leaves a trace where it is imported."""
    trace = tmp_path / "imported"
    (tmp_path / "bomb.py").write_text(
        f"open({str(trace)!r}, 'w').close()\nfrom {ACME} import AcmeTrait as Bomb\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "bomb.Bomb", trace
    sys.modules.pop("bomb", None)


def test_overrides_import_no_code(sqlite_app, bomb):
    path, trace = bomb
    for value in ([path], path, ["compute_status_filter", path]):
        body = {"request_spec": spec(), "overrides": {"scheduler.request_filters": value}}
        answer = sqlite_app.post_json("/scheduler/v1/explain", body, status=400)
        (error,) = answer.json["errors"]
        assert f"scheduler.request_filters: '{path}'" in error["detail"]
    assert not trace.exists()
    # The operator may, with the same words.
    assert order(path)[-1] == "acme_trait"
    assert trace.exists()


def test_overrides_may_name_what_the_operator_has_named():
    path = f"{ACME}.AcmeTrait"
    running = settings_naming(path)
    asked = {"scheduler.request_filters": ["compute_status_filter", path]}
    changed = with_overrides(running, asked)
    assert [one.name for one in plugins_for(changed).request_filters][-2:] == [
        "compute_status_filter",
        "acme_trait",
    ]
    with pytest.raises(Invalid):
        with_overrides(settings_naming(), asked)


def test_override_with_an_unknown_name_is_400_with_the_nearest(sqlite_app):
    overrides = {"scheduler.request_filters": ["isolate_agregates"]}
    body = {"request_spec": spec(), "overrides": overrides}
    answer = sqlite_app.post_json("/scheduler/v1/explain", body, status=400)
    (error,) = answer.json["errors"]
    assert "did you mean 'isolate_aggregates'?" in error["detail"]


def test_overrides_switch_none_off(sqlite_app):
    told = explained(sqlite_app, spec(), scheduler__request_filters=["owner_nova_filter"])
    assert sorted(told.order) == sorted(SHIPPED)
