# SPDX-License-Identifier: Apache-2.0
"""Machines that run at the same time, and their report of a service that fails to start."""

import pytest

from tests.deploy import debian
from tests.deploy.test_pages_on_a_machine import list_packages

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]

UNIT = "/etc/systemd/system/tried.service"
FAILS = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo It is the disk; exit 7'\n"
STAYS = "[Service]\nType=exec\nExecStart=/bin/sleep infinity\n"
#: Prints the process ids of the service on a machine. Other machines' processes have the id 0.
PROCESSES = "find /sys/fs/cgroup -path '*/tried.service/cgroup.procs' -exec cat {} +"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    debian.require_machines()
    debian.prepare(list_packages())
    folder = tmp_path_factory.mktemp("debian")
    debian.create_repository(folder)
    return folder


def add_service(machine, text):
    machine.run(f"touch {UNIT}")
    machine.write(UNIT, text)
    machine.run("systemctl daemon-reload")


def test_failed_service_is_reported_with_its_journal(folder):
    with debian.start_machine(folder, "alone", {}) as machine:
        add_service(machine, FAILS)
        for line in ("systemctl restart tried", "true && systemctl enable --now tried.service"):
            with pytest.raises(AssertionError) as shown:
                machine.run(line)
            text = str(shown.value)
            assert f"# {line}\n" in text
            assert "status=7" in text
            assert "It is the disk" in text.split("journalctl --no-pager")[1]
        with pytest.raises(AssertionError) as shown:
            machine.run("echo not of a service; false")
        assert "journalctl" not in str(shown.value)


def test_machines_share_no_control_groups(folder):
    with (
        debian.start_machine(folder, "a", {}) as first,
        debian.start_machine(folder, "b", {}) as second,
    ):
        for machine in (first, second):
            add_service(machine, STAYS)
            machine.run("systemctl start tried")
        for machine in (first, second):
            main = machine.run("systemctl show --value --property MainPID tried").strip()
            assert set(machine.run(PROCESSES).split()) == {main}
