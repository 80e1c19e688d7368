"""Every policy rule of every face, for the service and for oslo.policy's commands.

``oslopolicy-sample-generator``, ``oslopolicy-policy-generator``, ``oslopolicy-list-redundant`` and
``oslopolicy-validator`` find these functions by the entry points ``oslo.policy.policies`` and
``oslo.policy.enforcer``, under the namespace ``placement_sched``.
"""

from oslo_config import cfg
from oslo_policy import policy

from placement_sched.api.compute import policies as compute
from placement_sched.api.image import policies as image
from placement_sched.api.placement import policies as placement
from placement_sched.api.policies import Rule
from placement_sched.api.scheduler import policies as scheduler
from placement_sched.config.environment import files_named
from placement_sched.config.process import read_files
from placement_sched.errors import ConfigurationError

RULES: tuple[Rule, ...] = (
    *placement.RULES,
    *compute.RULES,
    *image.RULES,
    *scheduler.RULES,
)


def list_rules() -> list[policy.RuleDefault]:
    """Return the defaults, as oslo.policy takes them."""
    return [rule.default() for rule in RULES]


def get_enforcer() -> policy.Enforcer:
    """Return the rules in effect, for a command that reads oslo.config's process-wide object.

    The configuration is that of the command's ``--config-file``, or of the files that a WSGI
    server would read. Ends the command, with one line, where a file cannot be read.
    """
    try:
        read_files(cfg.CONF, cfg.CONF.get("config_file") or files_named())
    except ConfigurationError as wrong:
        raise SystemExit(str(wrong)) from None
    enforcer = policy.Enforcer(cfg.CONF)
    enforcer.register_defaults(list_rules())
    return enforcer
