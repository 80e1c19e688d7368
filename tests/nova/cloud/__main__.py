# SPDX-License-Identifier: Apache-2.0
"""``make nova-cloud``: run a cloud until Ctrl-C, and print how to use it."""

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.nova.cloud.cloud import Cloud, run_nova_cloud
from tests.nova.cloud.operator_commands import run_operator_commands
from tests.support.servers import PROGRAMS_FOLDER

USAGE_TEXT = """
nova runs on placement-sched: nova-api, nova-conductor, nova-compute on cn1 and cn2, RabbitMQ,
a database. The scheduler is {scheduler}. In another terminal:

  cd {here}
  export OS_CLOUD=nova-cloud OS_CLIENT_CONFIG_FILE={folder}/clouds.yaml
  {openstack} compute service list
  {openstack} server create --image cirros --flavor m1.tiny --nic none --wait one
  {openstack} server migrate --wait one

  compute API      {compute}
  placement-sched  {sched} (X-Auth-Token: admin)
  decisions        {sched}/scheduler/v1/decisions
  explain          .venv/bin/placement-sched explain --url {sched} --vcpus 1 --ram 512 --disk 1
  files and logs   {folder}

Ctrl-C ends it all and removes it.
"""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make nova-cloud")
    parser.add_argument("--scheduler", choices=("placement-sched", "nova"), required=True)
    parser.add_argument("--database", choices=("mysql", "postgresql"), required=True)
    chosen = parser.parse_args()
    # The context managers below stop all programs after each of these signals.
    for number in STOP_SIGNALS:
        signal.signal(number, _raise_keyboard_interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="nova-cloud-") as folder:
            _run_cloud(Path(folder), chosen.scheduler == "nova", chosen.database)
    except KeyboardInterrupt:
        _print_line("ended")
        return 0
    except (AssertionError, pytest.skip.Exception) as failure:
        _print_line(f"nova-cloud: {failure}")
        return 1
    return 0


def _raise_keyboard_interrupt(*_arguments: object) -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _print_line("ending")
    raise KeyboardInterrupt


def _run_cloud(folder: Path, theirs: bool, database: str) -> None:
    start = time.monotonic()

    def report_step(step: str) -> None:
        _print_line(f"{time.monotonic() - start:4.0f} s  {step}")

    with run_nova_cloud(folder, database, report_step) as cloud:
        report_step("the scheduler, flavors and images")
        scheduler = cloud.nova_scheduler if theirs else cloud.our_scheduler
        cloud.start_scheduler(scheduler)
        with run_operator_commands(cloud) as operator:
            operator.create_flavors_and_images()
        report_step("ready")
        _print_line(
            _format_usage_instructions(
                cloud, "nova-scheduler" if theirs else "placement-sched nova-scheduler"
            )
        )
        signal.pause()


def _format_usage_instructions(cloud: Cloud, scheduler: str) -> str:
    addresses = cloud.addresses
    return USAGE_TEXT.format(
        scheduler=scheduler,
        here=Path.cwd(),
        openstack=os.path.relpath(PROGRAMS_FOLDER / "openstack"),
        folder=cloud.folder,
        compute=addresses.compute_api,
        sched=addresses.placement_sched,
    )


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
