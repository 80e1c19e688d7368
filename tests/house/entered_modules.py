# SPDX-License-Identifier: Apache-2.0
"""Modules of the package that a request enters.

``python -m tests.house.entered_modules`` prints the modules. The cloud has a few flat hosts, and
earlier requests of the same kind have filled the caches.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from uuid import uuid4

from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.nova.rpc import SchedulerRpc
from placement_sched.nova.sync.follower import Follower
from tests.conftest import make_settings
from tests.nova.scheduling import build_request_spec_primitive, list_selected_hosts
from tests.support.nova_clouds import create_sqlite_nova
from tests.support.scheduling import make_report
from tests.support.versions import LATEST_HEADERS

_PACKAGE = "placement_sched"
#: The packages of plugins and extensions. Each deployment enables its own.
_PLUGINS = re.compile(
    r"placement_sched\.(extensions|scheduler\.(filters|weights|request_filters))\."
)
_HOSTS = ("cn1", "cn2", "cn3")


def list_entered_modules(call: Callable[[], object]) -> list[str]:
    """Return the modules whose functions run during a call, on this thread.

    Plugins and extensions are left out.
    """
    modules: set[str] = set()

    def record(frame: FrameType, event: str, _argument: object) -> None:
        # A module that a request imports runs its body, too, but a reader does not follow it.
        if event == "call" and frame.f_code.co_name != "<module>":
            modules.add(frame.f_globals.get("__name__", ""))

    previous = sys.getprofile()
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(previous)
    own = (name for name in modules if name.partition(".")[0] == _PACKAGE)
    return sorted(name for name in own if not _PLUGINS.match(name))


def trace_candidates(folder: Path) -> list[str]:
    """Return the modules that ``GET /allocation_candidates`` enters."""
    with _open_application(folder) as app:
        _report_hosts(app, {})
        path = "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:512&limit=10"

        def find_candidates() -> None:
            body = app.get(path, headers=LATEST_HEADERS).json
            assert len(body["allocation_requests"]) == len(_HOSTS)

        find_candidates()
        app.app.services.scheduler.caches.provider_cache.wait(60)
        find_candidates()
        return list_entered_modules(find_candidates)


def trace_selection(folder: Path) -> list[str]:
    """Return the modules that nova's RPC ``select_destinations`` enters."""
    nova = create_sqlite_nova(folder, "one")
    with _open_application(folder) as app:
        services = app.app.services
        options = {"api_database.connection": nova.api.url, "DEFAULT.service_down_time": 60}
        follower = Follower(services.database, services.settings.with_overrides(options))
        try:
            _report_hosts(app, {name: nova.add_host(name) for name in _HOSTS})
            follower.sync_all()
            rpc = SchedulerRpc(services.scheduler, follower, check_policy_hint=lambda _: None)

            def select_host() -> None:
                uuid = str(uuid4())
                spec = build_request_spec_primitive(uuid)
                sent = {"spec_obj": spec, "instance_uuids": [uuid], "return_objects": True}
                assert len(list_selected_hosts(rpc.select_destinations({}, **sent))) == 1

            for _ in range(3):
                select_host()
            return list_entered_modules(select_host)
        finally:
            follower.close()
            nova.close()


@contextmanager
def _open_application(folder: Path) -> Iterator[TestApp]:
    url = f"sqlite:///{folder}/placement_sched.db"
    application = create_app(make_settings(url, placement__providers_in_memory=True))
    app = TestApp(application, extra_environ={"HTTP_X_AUTH_TOKEN": "admin"})
    try:
        yield app
    finally:
        application.close()


def _report_hosts(app: TestApp, uuids: dict[str, str]) -> None:
    reports = [
        make_report(name, **({"uuid": uuids[name]} if name in uuids else {})) for name in _HOSTS
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)


def main() -> None:
    """Print the modules of both requests."""
    for title, trace in (
        ("GET /allocation_candidates", trace_candidates),
        ("select_destinations by nova's RPC", trace_selection),
    ):
        with TemporaryDirectory() as folder:
            modules = trace(Path(folder))
        sys.stdout.write(f"{title}: {len(modules)} modules\n")
        sys.stdout.writelines(f"  {name}\n" for name in modules)


if __name__ == "__main__":
    main()
