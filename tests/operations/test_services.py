"""Disabling, enabling and forcing down compute services."""

import pytest

from placement_sched.errors import NotFound
from placement_sched.operations import services as operations
from tests.operations.test_reports import DISABLED, provider, report, traits_of
from tests.reports import NOW, a_report
from tests.statements import counted


def disable(database, *hosts, reason="broken fan"):
    return database.write(lambda connection: operations.disable(connection, hosts, reason, NOW))


def enable(database, *hosts):
    return database.write(lambda connection: operations.enable(connection, hosts, NOW))


def test_disabling_marks_every_root_provider_of_the_host(database, settings):
    report(database, settings, a_report(1, host="rack"), a_report(2, host="rack"), a_report(3))
    before = provider(database).generation
    (service,) = disable(database, "rack")
    assert (service.disabled, service.disabled_reason) == (True, "broken fan")
    assert [traits_of(database, number) for number in (1, 2, 3)] == [{DISABLED}, {DISABLED}, set()]
    assert provider(database).generation == before + 1


def test_disabling_twice_changes_the_reason_only(database, settings):
    report(database, settings, a_report())
    disable(database, "cn1")
    before = provider(database)
    (service,) = disable(database, "cn1", reason=None)
    assert (service.disabled, service.disabled_reason) == (True, None)
    assert provider(database) == before


def test_enabling_takes_the_mark_off(database, settings):
    report(database, settings, a_report())
    disable(database, "cn1")
    (service,) = enable(database, "cn1")
    assert (service.disabled, service.disabled_reason) == (False, None)
    assert traits_of(database) == set()


def test_forcing_down_marks_no_provider(database, settings):
    report(database, settings, a_report())
    (service,) = database.write(
        lambda connection: operations.force_down(connection, ["cn1"], forced_down=True)
    )
    assert service.forced_down
    assert not service.is_up(NOW, 60)
    assert traits_of(database) == set()


def test_host_without_service_is_not_found_and_nothing_changes(database, settings):
    report(database, settings, a_report())
    with pytest.raises(NotFound, match="cn9") as missing:
        disable(database, "cn1", "cn9")
    assert missing.value.code == "scheduler.not_found"
    assert traits_of(database) == set()


def test_many_hosts_cost_what_few_cost(database, settings):
    report(database, settings, *(a_report(number) for number in range(40)))
    hosts = [f"cn{number}" for number in range(40)]
    counts = []
    for some in (hosts[:2], hosts[2:]):
        with counted(database) as seen:
            disable(database, *some)
            enable(database, *some)
        counts.append(len(seen))
    assert counts[0] == counts[1]
