"""GroupAntiAffinityFilter, Icehouse's name."""

from placement_sched.scheduler.filters.group_anti_affinity_filter import GroupAntiAffinityFilter
from tests.conftest import make_settings
from tests.placing import hosts_of, instance, report, spec

SELECT = "/scheduler/v1/select_destinations"


def test_files_of_icehouse_enable_it_and_server_groups_are_heeded(make_app, sqlite_url):
    app = make_app(
        make_settings(sqlite_url, filter_scheduler__enabled_filters=["GroupAntiAffinityFilter"])
    )
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    record = {"host": "cn2", "node": "cn2", "flavor": {"name": "f"}}
    app.put_json(f"/scheduler/v1/instances/{instance(1)}", record)
    group = {"policy": "anti-affinity", "members": [instance(1)], "hosts": ["cn2"]}
    body = spec(instance(2), instance_group=group)
    assert hosts_of(app.post_json(SELECT, {"request_spec": body}).json) == ["cn1"]


def test_group_anti_affinity_filter_runs_for_every_instance():
    assert GroupAntiAffinityFilter().run_filter_for_index(1)
