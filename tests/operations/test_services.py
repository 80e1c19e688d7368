# SPDX-License-Identifier: Apache-2.0
"""Disabling, enabling and forcing down compute services."""

import pytest

from placement_sched.errors import NotFound
from placement_sched.store.compute import services
from tests.operations.test_reports import DISABLED, provider, report, traits_of
from tests.support.reports import NOW, build_report
from tests.support.service_changes import change, disable, enable
from tests.support.statements import record_statements


def changed(database, change, host, *how, **changed):
    """Return the service of a host as it is after a change."""

    def work(connection):
        change(connection, host, *how, **changed)
        return services.by_hosts(connection, [host])[host]

    return database.write(work)


def test_disabling_marks_every_root_provider_of_the_host(database, settings):
    report(
        database,
        settings,
        build_report(1, host="rack"),
        build_report(2, host="rack"),
        build_report(3),
    )
    before = provider(database).generation
    service = changed(database, disable, "rack", "broken fan")
    assert (service.disabled, service.disabled_reason) == (True, "broken fan")
    assert [traits_of(database, number) for number in (1, 2, 3)] == [{DISABLED}, {DISABLED}, set()]
    assert provider(database).generation == before + 1


def test_disabling_twice_changes_the_reason_only(database, settings):
    report(database, settings, build_report())
    changed(database, disable, "cn1", "broken fan")
    before = provider(database)
    service = changed(database, disable, "cn1")
    assert (service.disabled, service.disabled_reason) == (True, None)
    assert provider(database) == before


def test_enabling_takes_the_mark_off(database, settings):
    report(database, settings, build_report())
    changed(database, disable, "cn1", "broken fan")
    service = changed(database, enable, "cn1")
    assert (service.disabled, service.disabled_reason) == (False, None)
    assert traits_of(database) == set()


def test_forcing_down_marks_no_provider(database, settings):
    report(database, settings, build_report())
    service = changed(database, change, "cn1", forced_down=True)
    assert service.forced_down
    assert not service.is_up(NOW, 60)
    assert traits_of(database) == set()


def test_host_without_service_is_not_found_and_nothing_changes(database, settings):
    report(database, settings, build_report())
    with pytest.raises(NotFound, match="cn9") as missing:
        changed(database, disable, "cn9")
    assert missing.value.code == "scheduler.not_found"
    assert traits_of(database) == set()


def test_a_host_of_many_nodes_costs_what_one_of_few_costs(database, settings):
    nodes = [build_report(number, host="few" if number < 2 else "many") for number in range(40)]
    report(database, settings, *nodes)
    counts = []
    for host in ("few", "many"):
        with record_statements(database) as seen:
            changed(database, disable, host)
            changed(database, enable, host)
        counts.append(len(seen))
    assert counts[0] == counts[1]
