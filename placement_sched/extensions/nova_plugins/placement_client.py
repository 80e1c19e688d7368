# SPDX-License-Identifier: Apache-2.0
"""The Placement API of a scheduler's database, for requests of plugins."""

from contextvars import copy_context
from functools import cache
from random import Random

from placement_sched.api.application import Application
from placement_sched.api.in_process import call_application
from placement_sched.api.metrics import Metrics
from placement_sched.api.policy import Policy
from placement_sched.api.policy_rules import RULES
from placement_sched.api.routing import Services
from placement_sched.app import create_placement_app
from placement_sched.extensions.nova_plugins.report_client import set_placement
from placement_sched.scheduler.scheduler import Scheduler


def provide_placement(scheduler: Scheduler) -> None:
    """Let plugins of nova read the Placement API of a scheduler's database."""

    @cache
    def make_placement_app() -> Application:
        settings = scheduler.settings.with_overrides({"api.auth_strategy": "noauth2"})
        services = Services(
            settings=settings,
            database=scheduler.database,
            policy=Policy(settings, RULES),
            metrics=Metrics(),
            clock=scheduler.clock,
            random=Random(),  # noqa: S311 - draws samples, no secrets
            scheduler=scheduler,
            ready=lambda: None,  # the scheduler has prepared the database
            run_periodic_tasks=lambda: None,
        )
        return create_placement_app(services)

    def get(path: str, microversion: str) -> tuple[int, bytes]:
        version = f"placement {microversion}"
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": version}
        reply = call_application(make_placement_app(), "GET", path, headers=headers)
        return reply.status, reply.body

    # In a separate context, because the statistics belong to the request that is scheduled.
    set_placement(lambda path, microversion: copy_context().run(get, path, microversion))
