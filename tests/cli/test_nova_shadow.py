# SPDX-License-Identifier: Apache-2.0
"""``nova-shadow`` with missing settings."""

import pytest

from tests.support import program
from tests.support.servers import environment

pytestmark = pytest.mark.slow

NOVA = "[api_database]\nconnection = sqlite:///nova_api.db\n"
BUS = "[DEFAULT]\ntransport_url = rabbit://u:s3cret@mq/\n"
OURS = "[placement_database]\nconnection = sqlite:///sched.db\n"


@pytest.fixture
def run_shadow(tmp_path):
    """Return a function that runs a command with a configuration file of these lines."""

    def run_program(lines, *arguments):
        file = tmp_path / "nova.conf"
        file.write_text(lines)
        command = (*arguments, "--config-file", str(file))
        return program.run(*command, cwd=tmp_path, env=environment())

    return run_program


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (BUS + OURS, "[api_database] connection is not set"),
        (BUS + NOVA, "[placement_database] connection is not set"),
        (NOVA + OURS, "[DEFAULT] transport_url is not set"),
        (
            NOVA + OURS + "[DEFAULT]\ntransport_url = kafka://u:s3cret@mq/\n",
            "[DEFAULT] transport_url: kafka is not RabbitMQ",
        ),
    ],
)
def test_missing_setting_of_nova_shadow_is_reported_in_one_line(run_shadow, lines, message):
    done = run_shadow(lines, "nova-shadow")
    assert done.returncode == 1
    assert done.stderr.startswith(f"placement-sched: {message}")
    assert len(done.stderr.splitlines()) == 1
    assert "s3cret" not in done.stderr
