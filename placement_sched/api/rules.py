"""Every policy rule of every face, for the service and for oslo.policy's commands.

``oslopolicy-sample-generator``, ``oslopolicy-policy-generator``, ``oslopolicy-list-redundant`` and
``oslopolicy-validator`` find these functions by the entry points ``oslo.policy.policies`` and
``oslo.policy.enforcer``, under the namespace ``placement_sched``.
"""

from oslo_config import cfg
from oslo_policy import policy

from placement_sched.api.compute import policies as compute
from placement_sched.api.placement import policies as placement
from placement_sched.api.policies import Rule
from placement_sched.errors import ConfigurationError
from placement_sched.settings.conf import read_files
from placement_sched.settings.opts import files_named

# Names and defaults of the image API's rules are glance's. They guard the operations. Beyond that,
# only the owner of an image and an administrator (``context_is_admin``) may change it, and its
# visibility decides who may see it.
_ADMIN = "role:admin"
#: With keystone ``member`` implies ``reader``; with ``noauth2`` the caller names the roles.
_IMAGE_READER = "role:admin or role:reader or (role:member and project_id:%(project_id)s)"
_IMAGE_MEMBER = "role:admin or (role:member and project_id:%(project_id)s)"

_IMAGE = (
    Rule("get_images", _IMAGE_READER, "List images."),
    Rule("get_image", _IMAGE_READER, "Show an image."),
    Rule("add_image", _IMAGE_MEMBER, "Create an image."),
    Rule("modify_image", _IMAGE_MEMBER, "Change or tag an image of the caller's project."),
    Rule("publicize_image", _ADMIN, "Publish an image (visibility public)."),
    Rule("communitize_image", _IMAGE_MEMBER, "Publish an image (visibility community)."),
    Rule("delete_image", _IMAGE_MEMBER, "Delete an image of the caller's project."),
    Rule("upload_image", _IMAGE_MEMBER, "Upload image data."),
    Rule("download_image", _IMAGE_READER, "Download image data."),
    Rule("deactivate", _ADMIN, "Deactivate an image."),
    Rule("reactivate", _ADMIN, "Reactivate an image."),
)

#: The rule for the scheduler hint ``sched_policy``.
POLICY_HINT = "scheduler:policies:hint"
_ADMIN_OR_SERVICE = "role:admin or role:service"

_SCHEDULER = (
    Rule("scheduler:root:show", "@", "Show the scheduler API's resources."),
    *(
        Rule(name, _ADMIN_OR_SERVICE, description)
        for name, description in (
            ("scheduler:compute_nodes:report", "Report what compute nodes have."),
            ("scheduler:compute_nodes:list", "List compute nodes."),
            ("scheduler:compute_nodes:show", "Show a compute node."),
            ("scheduler:compute_nodes:delete", "Delete a compute node and its provider."),
            ("scheduler:aggregate_check", "Check aggregates that are reserved by traits."),
            ("scheduler:hosts:list", "List hosts with their states, traits and resources."),
            ("scheduler:hosts:show", "Show a host: its providers, instances and services."),
            ("scheduler:instances:record", "Record where an instance is."),
            ("scheduler:instances:list", "List recorded instances."),
            ("scheduler:instances:show", "Show a recorded instance."),
            ("scheduler:instances:delete", "Forget an instance and free its allocations."),
            ("scheduler:select_destinations", "Place instances."),
            ("scheduler:decisions:list", "List decisions."),
            ("scheduler:decisions:show", "Show a decision: the request and its outcome."),
            ("scheduler:decisions:replay", "Run the request of a decision again, dry."),
            ("scheduler:explain", "Explain where instances would be placed, and why."),
            ("scheduler:plan", "Plan changes of the cloud: what would move where."),
            ("scheduler:rebalance", "Advise on moves that make room or even out load."),
            ("scheduler:capacity", "Count how many more instances fit."),
            ("scheduler:policies:list", "List the policies that requests may come under."),
            ("scheduler:policies:show", "Show a policy: its options, and where each is from."),
            (POLICY_HINT, "Name a policy by the scheduler hint sched_policy."),
        )
    ),
)

RULES: tuple[Rule, ...] = (*placement.RULES, *compute.RULES, *_IMAGE, *_SCHEDULER)


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
