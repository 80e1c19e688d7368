# SPDX-License-Identifier: Apache-2.0
"""Figures of the whole cloud by zone, and numbers of rows."""

from placement_sched.model.clock import utcnow
from placement_sched.store.figures import count_rows, read_cloud_figures
from placement_sched.store.placement import resource_classes, traits
from tests.support.api_clouds import make_zone
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.statements import run_query


def test_capacity_and_used_amounts_are_summed_by_availability_zone(sqlite_app):
    hosts = [make_report("cn1", vcpus=4), make_report("cn2", vcpus=16)]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", hosts)
    make_zone(sqlite_app, "az1", "cn1")
    select_hosts(
        sqlite_app, make_spec(make_uuid(1), flavor=make_flavor(vcpus=3), force_hosts=["cn1"])
    )
    with sqlite_app.app.services.database.read() as connection:
        figures = read_cloud_figures(connection, utcnow(), 86400, "nova")
    assert figures.capacity["VCPU", "nova"] == 4 * figures.capacity["VCPU", "az1"] > 0
    assert (figures.used["VCPU", "az1"], figures.used["VCPU", "nova"]) == (3, 0)


def test_only_custom_names_are_counted(sqlite_database):
    def add_names(connection):
        resource_classes.add(connection, "CUSTOM_A", utcnow())
        for name in ("CUSTOM_A", "CUSTOM_B"):
            traits.ensure(connection, name, utcnow())

    sqlite_database.write(add_names)
    counts = run_query(sqlite_database, count_rows)
    assert (counts.custom_resource_classes, counts.custom_traits) == (1, 2)
