# SPDX-License-Identifier: Apache-2.0
"""Disabling, enabling and forcing down compute services."""

from placement_sched.store.compute import services
from tests.support.recorded_reports import (
    DISABLED_TRAIT,
    disable_service,
    read_provider,
    read_traits,
    record_report,
    set_service_fields,
)
from tests.support.reports import NOW, build_report
from tests.support.statements import record_statements


def change_and_read_service(database, change, host, *arguments, **changed):
    """Return the service of a host after a change."""

    def write_rows(connection):
        change(connection, host, *arguments, **changed)
        return services.map_by_host(connection, [host])[host]

    return database.write(write_rows)


def test_disabling_a_service_sets_the_trait_on_every_root_provider(database, settings):
    record_report(
        database,
        settings,
        build_report(1, host="rack"),
        build_report(2, host="rack"),
        build_report(3),
    )
    generation = read_provider(database).generation
    service = change_and_read_service(database, disable_service, "rack", "broken fan")
    assert (service.disabled, service.disabled_reason) == (True, "broken fan")
    assert [read_traits(database, number) for number in (1, 2, 3)] == [
        {DISABLED_TRAIT},
        {DISABLED_TRAIT},
        set(),
    ]
    assert read_provider(database).generation == generation + 1


def test_repeated_disabling_of_a_service_changes_only_the_reason(database, settings):
    record_report(database, settings, build_report())
    change_and_read_service(database, disable_service, "cn1", "broken fan")
    provider = read_provider(database)
    service = change_and_read_service(database, disable_service, "cn1")
    assert (service.disabled, service.disabled_reason) == (True, None)
    assert read_provider(database) == provider


def test_forcing_down_a_service_sets_no_trait(database, settings):
    record_report(database, settings, build_report())
    service = change_and_read_service(database, set_service_fields, "cn1", forced_down=True)
    assert service.forced_down
    assert not service.is_up(NOW, 60)
    assert read_traits(database) == set()


def test_statement_count_of_disabling_is_independent_of_nodes(database, settings):
    nodes = [build_report(number, host="few" if number < 2 else "many") for number in range(40)]
    record_report(database, settings, *nodes)
    counts = []
    for host in ("few", "many"):
        with record_statements(database) as seen:
            change_and_read_service(database, disable_service, host)
            change_and_read_service(database, set_service_fields, host, disabled=False)
        counts.append(len(seen))
    assert counts[0] == counts[1]
