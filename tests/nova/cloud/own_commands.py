# SPDX-License-Identifier: Apache-2.0
"""Commands of placement-sched on the cloud of a real nova."""

import subprocess

from tests.support.servers import PROGRAMS_FOLDER, build_environment


def run_program(cloud, *arguments, status=0, **variables):
    """Run placement-sched, and return its standard output."""
    done = subprocess.run(
        [PROGRAMS_FOLDER / "placement-sched", *arguments],
        env=build_environment(HOME=str(cloud.folder), **variables),
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def run_own_command(cloud, *arguments):
    """Run a command that reads nova's databases."""
    files = ("--config-file", cloud.nova_conf, "--config-file", cloud.own_conf)
    return run_program(cloud, *arguments, *files)


def run_remote_command(cloud, *arguments, status=0):
    """Run a command that sends requests to the server."""
    file = str(cloud.folder / "clouds.yaml")
    options = ("--os-cloud", "nova-cloud")
    return run_program(cloud, *arguments, *options, status=status, OS_CLIENT_CONFIG_FILE=file)
