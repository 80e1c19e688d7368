# SPDX-License-Identifier: Apache-2.0
"""``nova-scheduler``: nova's scheduler RPC in place of nova-scheduler."""

import argparse
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial

from placement_sched.api import metrics
from placement_sched.api import policy as policy_module
from placement_sched.api.auth import Identity
from placement_sched.api.metrics import Metrics
from placement_sched.api.policy_rules import POLICY_HINT, RULES
from placement_sched.cli.arguments import Commands, add_command, parse_positive_number
from placement_sched.cli.database import check_database_adopted, describe_database
from placement_sched.cli.service import add_log_options, read_service_settings, start_log
from placement_sched.config import CONF, logs
from placement_sched.config.settings import Settings
from placement_sched.config.sources import format_file_list
from placement_sched.errors import ConfigurationError
from placement_sched.nova import messaging, service
from placement_sched.nova.message_bus import read_transport
from placement_sched.nova.messaging import Context
from placement_sched.nova.monitoring import Monitor, WaitingRequests, find_queue_length
from placement_sched.operations.config_check import log_warnings

_EPILOG = """\
nova.conf is used unchanged: [DEFAULT] transport_url and host, [api_database] and [database]
connection, [scheduler], [filter_scheduler]. [placement_database] connection, the database of this
service, may be in a second file."""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "nova-scheduler",
        "serve nova's scheduler RPC in place of nova-scheduler",
        run,
        epilog=_EPILOG,
        with_nova_conf=True,
    )
    parser.add_examples("--config-file /etc/nova/nova.conf --config-file placement_sched.conf")
    workers_help = "number of worker processes (default: [scheduler] workers)"
    parser.add_argument("--workers", type=parse_positive_number, help=workers_help)
    add_log_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT, and return 0 after a clean stop."""
    settings = read_service_settings(arguments)
    service.check(settings)
    check_policy_hint = make_policy_hint_check(settings)
    start_log("nova-scheduler")
    check_database_adopted(settings)
    log_warnings(settings)
    workers = service.count_workers(settings, arguments.workers)
    start_line = (
        f"placement-sched nova-scheduler serves {messaging.describe_bus(settings)} on "
        f"{describe_database(settings)}, host {settings.DEFAULT.host}, workers {workers}"
        f"{format_file_list(settings.conf)}{logs.format_destination(CONF)}"
    )
    with start_monitoring(settings) as (call_metrics, monitor):
        if monitor is not None:
            start_line += f", metrics at {monitor.listens}"
        service.run(settings, workers, start_line, check_policy_hint, call_metrics, monitor)
    return 0


def make_policy_hint_check(settings: Settings) -> Callable[[Context], None]:
    """Return a check of ``sched_policy`` that may raise :class:`Forbidden`."""
    for name in (policy_module.__name__, "oslo_policy"):
        # The policy file may be nova's, with rules that this service does not have.
        logging.getLogger(name).setLevel(logging.ERROR)
    policy = policy_module.Policy(settings, RULES)

    def check(context: Context) -> None:
        owner = {name: context.get(name) or "" for name in ("user_id", "project_id")}
        roles = (*(context.get("roles") or ()), *(("admin",) if context.get("is_admin") else ()))
        scope = {"system_scope": context.get("system_scope")}
        policy.check(POLICY_HINT, Identity(**owner, roles=roles, other_credentials=scope), owner)

    return check


@contextmanager
def start_monitoring(settings: Settings) -> Iterator[tuple[Metrics | None, Monitor | None]]:
    """Yield metrics and their server, or raise :class:`Error`."""
    listen = settings.scheduler.metrics_listen
    if not listen:
        yield None, None
        return
    with metrics.share_numbers():
        # Each process, also a forked process, writes its numbers to its own files.
        call_metrics = Metrics()
        with suppress(ConfigurationError):  # not RabbitMQ: the queue length is not available
            bus = read_transport(settings.conf.config_file or ())
            call_metrics.show(WaitingRequests(partial(find_queue_length, bus)))
        with closing(Monitor(listen, call_metrics.scrape)) as monitor:
            yield call_metrics, monitor
