# SPDX-License-Identifier: Apache-2.0
"""The plugins alone, and as placement_sched loads them."""

from datetime import datetime

import pytest
from acme_halls.cool_halls import CoolHallsWeigher
from acme_halls.hall import Hall
from acme_halls.quiet_time import QuietTimeFilter

from placement_sched.errors import Invalid
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.flavor import Flavor
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler import extra_specs
from placement_sched.scheduler.filters import Rejection
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugins import get_plugins, make_full_conf, read_settings

NOON = datetime(2026, 5, 1, 12)


def a_hall(number, **metadata):
    """Return a host aggregate, with ``acme:`` before each key."""
    return HostAggregate(
        id=number,
        uuid=f"0000000{number}-0000-4000-8000-000000000000",
        name=f"hall {number}",
        hosts=frozenset({f"cn{number}"}),
        metadata={f"acme:{key}": value for key, value in metadata.items()},
    )


def a_host(**metadata):
    return HostState("cn1", "cn1", aggregates=(a_hall(1, **metadata),))


def a_spec(**extra_specs):
    prefixed = {f"acme:{key}": value for key, value in extra_specs.items()}
    return RequestSpec(flavor=Flavor(vcpus=1, memory_mb=512, extra_specs=prefixed))


def at_noon(kind):
    """Return a plugin whose time is always noon."""
    return kind.with_settings(kind().settings, lambda: NOON)


@pytest.mark.parametrize(
    ("maintenance", "passes"),
    [
        ("2026-05-01T11:00", True),
        ("2026-05-01T12:00", False),
        ("2026-05-02T11:59", False),
        ("2026-05-02T12:00", True),
        ("2026-05-01T14:00+02:00", False),
        ("tomorrow", True),
    ],
    ids=["is over", "now", "within a day", "in a day", "now elsewhere", "no time"],
)
def test_a_hall_is_quiet_before_its_maintenance(maintenance, passes):
    host = a_host(maintenance=maintenance)
    assert at_noon(QuietTimeFilter).host_passes(host, a_spec()) is passes
    assert at_noon(QuietTimeFilter).host_passes(host, a_spec(bears_maintenance="True"))


def test_the_reason_contains_the_hours():
    rejection = at_noon(QuietTimeFilter).rejection(a_host(maintenance="2026-05-01T13:30"), a_spec())
    assert rejection.text == "its hall is maintained in 1.5 hours, and 24 are to be quiet"


def test_a_cool_hall_weighs_more_than_a_warm_hall_or_a_hall_without_degrees():
    weigh = CoolHallsWeigher()._weigh_object
    cool, warm, silent = a_host(degrees="19.5"), a_host(degrees="31"), HostState("cn2", "cn2")
    assert weigh(cool, a_spec()) > weigh(silent, a_spec()) > weigh(warm, a_spec())


class World:
    """The data of a request filter."""

    def host_aggregates(self):
        return (a_hall(1, hall="h1"), a_hall(2, hall="h2"), a_hall(3, hall="h2"))


def test_a_request_is_confined_to_the_hall_of_its_flavor():
    outcome = Hall().apply(a_spec(hall="h2"), World())
    assert outcome.changes == {"aggregates": [a_hall(2).uuid, a_hall(3).uuid]}
    assert Hall().apply(a_spec(), World()) is None
    assert Hall().apply(a_spec(hall="h9"), World()) == Rejection("there is no hall h9")


def test_installed_they_are_found(tmp_path):
    file = tmp_path / "placement_sched.conf"
    file.write_text(
        "[filter_scheduler]\nenabled_filters = QuietTimeFilter\n[acme_halls]\nquiet_hours = 2\n"
    )
    plugins = get_plugins(read_settings([str(file)], make_full_conf()))
    assert [type(each) for each in plugins.filters] == [QuietTimeFilter]
    assert plugins.filters[0].settings.acme_halls.quiet_hours == 2
    assert CoolHallsWeigher in map(type, plugins.weighers)
    assert Hall in map(type, plugins.request_filters)


@pytest.mark.parametrize(
    ("key", "value"),
    [("acme:hall", "hall 2"), ("acme:bears_maintenance", "often"), ("acme:x", "1")],
)
def test_installed_they_check_extra_specs(key, value):
    extra_specs.check("acme:hall", "h2")
    with pytest.raises(Invalid, match="Validation failed"):
        extra_specs.check(key, value)
