# SPDX-License-Identifier: Apache-2.0
"""Several Debians run beside each other, and show why a service did not start."""

import pytest

from tests.deploy import debian
from tests.deploy.test_pages_on_a_machine import packages

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]

UNIT = "/etc/systemd/system/tried.service"
FAILS = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo It is the disk; exit 7'\n"
STAYS = "[Service]\nType=exec\nExecStart=/bin/sleep infinity\n"
#: The processes of the service, by their numbers in this machine: one of another machine has 0.
PROCESSES = "find /sys/fs/cgroup -path '*/tried.service/cgroup.procs' -exec cat {} +"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    debian.refuse_where_it_cannot_run()
    debian.prepare(packages())
    folder = tmp_path_factory.mktemp("debian")
    debian.lay_repository(folder)
    return folder


def have_service(machine, text):
    machine.do(f"touch {UNIT}")
    machine.write(UNIT, text)
    machine.do("systemctl daemon-reload")


def test_a_service_that_does_not_start_is_shown_with_its_journal(folder):
    with debian.machine(folder, "alone", {}) as machine:
        have_service(machine, FAILS)
        for line in ("systemctl restart tried", "true && systemctl enable --now tried.service"):
            with pytest.raises(AssertionError) as shown:
                machine.do(line)
            text = str(shown.value)
            assert f"# {line}\n" in text
            assert "status=7" in text
            assert "It is the disk" in text.split("journalctl --no-pager")[1]
        with pytest.raises(AssertionError) as shown:
            machine.do("echo not of a service; false")
        assert "journalctl" not in str(shown.value)


def test_machines_share_no_control_groups(folder):
    with debian.machine(folder, "a", {}) as one, debian.machine(folder, "b", {}) as other:
        for machine in (one, other):
            have_service(machine, STAYS)
            machine.do("systemctl start tried")
        for machine in (one, other):
            main = machine.do("systemctl show --value --property MainPID tried").strip()
            assert set(machine.do(PROCESSES).split()) == {main}
