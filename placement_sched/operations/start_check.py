"""What a server says of its configuration when it starts: the lines that have no effect."""

import os

from oslo_log import log

from placement_sched.config import logs
from placement_sched.config.lines import files_read
from placement_sched.config.process import CONF
from placement_sched.config.settings import Settings
from placement_sched.operations.config_check import Problem, check_files
from placement_sched.operations.policy_check import unlisted_policies

LOG = log.getLogger(__name__)

#: How many lines are named. A whole nova.conf has hundreds that are for other services.
MOST = 20


def lines_without_effect(settings: Settings) -> list[Problem]:
    """Return the lines and groups that set nothing: options unknown, misspelt or of no use here.

    What is misspelt comes first; within each kind they are in the order of the files.
    """
    files = files_read(settings.conf)
    if not files and not any("__" in name for name in os.environ if name.startswith("OS_")):
        return []
    problems = check_files(files, os.environ, settings.conf, unlisted_policies(settings))
    found = [problem for problem in problems if problem.without_effect]
    return sorted(found, key=lambda problem: not problem.fatal)


def log_start(settings: Settings) -> None:
    """Start the log with a warning of each line that sets nothing, as ``config validate`` has it.

    They are looked for before, as libraries that are loaded for it would log that.
    """
    found = lines_without_effect(settings)
    logs.setup(CONF)
    for problem in found[:MOST]:
        LOG.warning("%s: %s", problem.place, problem.text)
    if len(found) > MOST:
        LOG.warning(
            "%d more lines of the configuration have no effect; placement-sched config validate "
            "lists them",
            len(found) - MOST,
        )
