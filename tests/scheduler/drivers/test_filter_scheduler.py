# SPDX-License-Identifier: Apache-2.0
"""Names of drivers, and the default driver."""

import pytest

from placement_sched.scheduler.drivers.caching_scheduler import CachingScheduler
from placement_sched.scheduler.drivers.chance_scheduler import ChanceScheduler
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.plugins import get_plugins
from tests.conftest import make_settings
from tests.support.scheduling import make_report, make_spec
from tests.support.states import build_settings


class LowestWeightDriver(FilterScheduler):
    """A third-party driver that selects the host with the lowest weight."""

    def ordered(self, hosts, _taken, _random):
        return tuple(reversed(hosts))


DRIVERS_PACKAGE = "placement_sched.scheduler.drivers"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("filter_scheduler", FilterScheduler),
        ("caching_scheduler", CachingScheduler),
        ("chance_scheduler", ChanceScheduler),
        ("nova.scheduler.FilterScheduler", FilterScheduler),
        ("nova.scheduler.filter_scheduler.FilterScheduler", FilterScheduler),
        ("nova.scheduler.chance.ChanceScheduler", ChanceScheduler),
        ("nova.scheduler.caching_scheduler.CachingScheduler", CachingScheduler),
        (f"{DRIVERS_PACKAGE}.chance_scheduler.ChanceScheduler", ChanceScheduler),
        (f"{__name__}.LowestWeightDriver", LowestWeightDriver),
    ],
    ids=str,
)
def test_driver_option_accepts_the_driver_names_of_all_nova_releases(name, kind):
    assert type(get_plugins(build_settings(scheduler__driver=name)).driver) is kind


def test_overrides_may_name_only_shipped_drivers(make_app, sqlite_url):
    app = make_app(make_settings(sqlite_url, scheduler__driver=f"{__name__}.LowestWeightDriver"))
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2", memory_mb=9999)]
    )

    def explain_with_overrides(status=200, **overrides):
        body = {"request_spec": make_spec(), "overrides": overrides}
        return app.post_json("/scheduler/v1/explain", body, status=status).json

    assert explain_with_overrides()["selections"][0][0]["service_host"] == "cn2"
    shipped = explain_with_overrides(**{"scheduler.driver": "filter_scheduler"})
    assert shipped["selections"][0][0]["service_host"] == "cn1"
    for name in ("os.path.join", "nova.scheduler.filters.x.FilterScheduler2", "nonsense"):
        detail = explain_with_overrides(400, **{"scheduler.driver": name})["errors"][0]["detail"]
        assert name in detail
