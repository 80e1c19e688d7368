# SPDX-License-Identifier: Apache-2.0
"""Policy rules of all APIs, for the service and oslo.policy's commands.

``oslopolicy-sample-generator``, ``oslopolicy-policy-generator``, ``oslopolicy-list-redundant`` and
``oslopolicy-validator`` call the functions through the entry points ``oslo.policy.policies`` and
``oslo.policy.enforcer``, under the namespace ``placement_sched``.
"""

from collections import defaultdict
from itertools import chain

from oslo_config import cfg
from oslo_policy import policy

from placement_sched.api.compute.routes import API as COMPUTE
from placement_sched.api.image import API as IMAGE
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.policy import ADMIN, ADMIN_OR_SERVICE, Rule
from placement_sched.api.routing import PARAMETER
from placement_sched.api.scheduler.routes import API as SCHEDULER
from placement_sched.config.conf import read_files
from placement_sched.config.sources import find_files
from placement_sched.errors import ConfigurationError
from placement_sched.model.extension import load_hooks

_COMPUTE_ADMIN = "rule:context_is_admin"
_READER = "rule:project_reader_or_admin"
_AGGREGATES = "os_compute_api:os-aggregates"
_MANAGE = "os_compute_api:os-flavor-manage"
_ACCESS = "os_compute_api:os-flavor-access"
_EXTRA_SPECS = "os_compute_api:os-flavor-extra-specs"
_MEMBER = "rule:project_member_or_admin"
_SERVERS = "os_compute_api:servers"
_ZONES = "os_compute_api:os-availability-zone"
_GROUPS = "os_compute_api:os-server-groups"
_SERVICES = "os_compute_api:os-services"
_MIGRATIONS = "os_compute_api:os-migrations"
_HYPERVISORS = "os_compute_api:os-hypervisors"
#: With keystone ``member`` implies ``reader``. With ``noauth2`` the caller sends all roles.
_IMAGE_READER = "role:admin or role:reader or (role:member and project_id:%(project_id)s)"
_IMAGE_MEMBER = "role:admin or (role:member and project_id:%(project_id)s)"
#: The rule for the scheduler hint ``sched_policy``.
POLICY_HINT = "scheduler:policies:hint"


def _build_rule(name: str, description: str, check: str = _COMPUTE_ADMIN) -> Rule:
    return Rule(name, check, description)


COMPUTE_RULES = (
    _build_rule("context_is_admin", "Administrators of the compute and image APIs.", ADMIN),
    _build_rule(
        "project_reader_or_admin",
        "Administrators, and readers of the project in question.",
        "rule:project_reader_api or rule:context_is_admin",
    ),
    _build_rule(
        "project_member_api",
        "Callers that may change the objects of their project.",
        "role:member and project_id:%(project_id)s",
    ),
    _build_rule(
        "project_member_or_admin",
        "Administrators, and members of the project in question.",
        "rule:project_member_api or rule:context_is_admin",
    ),
    _build_rule(
        "project_manager_api",
        "Callers with the role manager in the project in question.",
        "role:manager and project_id:%(project_id)s",
    ),
    _build_rule(
        "project_manager_or_admin",
        "Administrators, and managers of the project in question.",
        "rule:project_manager_api or rule:context_is_admin",
    ),
    _build_rule(f"{_AGGREGATES}:index", "List host aggregates."),
    _build_rule(f"{_AGGREGATES}:create", "Create a host aggregate."),
    _build_rule(f"{_AGGREGATES}:show", "Show a host aggregate."),
    _build_rule(f"{_AGGREGATES}:update", "Change a host aggregate's name or availability zone."),
    _build_rule(f"{_AGGREGATES}:delete", "Delete a host aggregate."),
    _build_rule(f"{_AGGREGATES}:add_host", "Add a host to a host aggregate."),
    _build_rule(f"{_AGGREGATES}:remove_host", "Remove a host from a host aggregate."),
    _build_rule(f"{_AGGREGATES}:set_metadata", "Change a host aggregate's metadata."),
    _build_rule(
        "compute:aggregates:images", "Request images to be cached on the hosts of an aggregate."
    ),
    _build_rule("os_compute_api:flavors", "List and show flavors.", _READER),
    _build_rule(f"{_MANAGE}:create", "Create a flavor."),
    _build_rule(f"{_MANAGE}:update", "Change the description of a flavor."),
    _build_rule(f"{_MANAGE}:delete", "Delete a flavor."),
    _build_rule(_ACCESS, "List the projects with access to a private flavor."),
    _build_rule(f"{_ACCESS}:add_tenant_access", "Grant a project access to a private flavor."),
    _build_rule(
        f"{_ACCESS}:remove_tenant_access", "Revoke a project's access to a private flavor."
    ),
    _build_rule(f"{_EXTRA_SPECS}:index", "List the extra specs of a flavor.", _READER),
    _build_rule(f"{_EXTRA_SPECS}:show", "Show an extra spec of a flavor.", _READER),
    _build_rule(f"{_EXTRA_SPECS}:create", "Set extra specs of a flavor."),
    _build_rule(f"{_EXTRA_SPECS}:update", "Set a single extra spec of a flavor."),
    _build_rule(f"{_EXTRA_SPECS}:delete", "Delete an extra spec of a flavor."),
    _build_rule(f"{_GROUPS}:index", "List the server groups of the caller's project.", _READER),
    _build_rule(f"{_GROUPS}:index:all_projects", "List the server groups of all projects."),
    _build_rule(f"{_GROUPS}:create", "Create a server group.", _MEMBER),
    _build_rule(f"{_GROUPS}:show", "Show a server group.", _READER),
    _build_rule(f"{_GROUPS}:delete", "Delete a server group.", _MEMBER),
    _build_rule(f"{_SERVICES}:list", "List compute services."),
    _build_rule(f"{_SERVICES}:update", "Enable, disable or force down a compute service."),
    _build_rule(
        f"{_SERVICES}:delete", "Delete a compute service and the compute nodes of its host."
    ),
    _build_rule(f"{_HYPERVISORS}:list", "List hypervisors by name."),
    _build_rule(f"{_HYPERVISORS}:list-detail", "List hypervisors with all fields."),
    _build_rule(f"{_HYPERVISORS}:statistics", "Show the totals of all enabled hypervisors."),
    _build_rule(f"{_HYPERVISORS}:show", "Show a hypervisor."),
    _build_rule(f"{_HYPERVISORS}:uptime", "Show the uptime of a hypervisor."),
    _build_rule(f"{_HYPERVISORS}:search", "Find hypervisors by a part of their name."),
    _build_rule(f"{_HYPERVISORS}:servers", "List the instances of hypervisors."),
    _build_rule(
        f"{_MIGRATIONS}:index",
        "List the migrations of the caller's project, without hosts.",
        "rule:project_manager_or_admin",
    ),
    _build_rule(f"{_MIGRATIONS}:index:all_projects", "List the migrations of all projects."),
    _build_rule(f"{_MIGRATIONS}:index:host", "See the hosts of migrations."),
    _build_rule(f"{_ZONES}:list", "List availability zones.", _READER),
    _build_rule(f"{_ZONES}:detail", "List availability zones with their hosts."),
    _build_rule(f"{_SERVERS}:index", "List servers by name and id.", _READER),
    _build_rule(
        f"{_SERVERS}:index:get_all_tenants", "List servers of all projects by name and id."
    ),
    _build_rule(f"{_SERVERS}:detail", "List servers.", _READER),
    _build_rule(f"{_SERVERS}:detail:get_all_tenants", "List servers of all projects."),
    _build_rule(f"{_SERVERS}:allow_all_filters", "Filter lists of servers by any field."),
    _build_rule(f"{_SERVERS}:show", "Show a server.", _READER),
    _build_rule(f"{_SERVERS}:show:host_status", "See the status of servers' hosts."),
    _build_rule(
        f"{_SERVERS}:show:host_status:unknown-only", "See that the status of a host is unknown."
    ),
    _build_rule("os_compute_api:os-extended-server-attributes", "See the hosts of servers."),
    _build_rule(f"{_SERVERS}:create", "Create a server (always rejected).", _MEMBER),
    _build_rule(f"{_SERVERS}:update", "Change a server (always rejected).", _MEMBER),
    _build_rule(f"{_SERVERS}:delete", "Delete a server (always rejected).", _MEMBER),
)


PLACEMENT_RULES = (
    Rule("admin_api", ADMIN, "Administrators."),
    *(
        Rule(name, check, description, formerly=ADMIN)
        for name, check, description in (
            ("service_api", "role:service", "Other services, such as nova and neutron."),
            ("admin_or_service_api", ADMIN_OR_SERVICE, "Administrators and services."),
            (
                "project_reader_api",
                "role:reader and project_id:%(project_id)s",
                "Callers that may read the objects of their project.",
            ),
            (
                "admin_or_project_reader_or_service_api",
                "role:admin or rule:project_reader_api or role:service",
                "Administrators, services, and readers of the project in question.",
            ),
        )
    ),
    *(
        Rule(f"placement:{name}", "rule:admin_or_service_api", description)
        for name, description in (
            ("resource_providers:list", "List resource providers."),
            ("resource_providers:create", "Create a resource provider."),
            ("resource_providers:show", "Show a resource provider."),
            ("resource_providers:update", "Rename or move a provider."),
            ("resource_providers:delete", "Delete a resource provider."),
            ("resource_classes:list", "List resource classes."),
            ("resource_classes:create", "Create a resource class."),
            ("resource_classes:show", "Show a resource class."),
            ("resource_classes:update", "Rename a resource class, or create it."),
            ("resource_classes:delete", "Delete a resource class."),
            ("resource_providers:inventories:list", "List inventories."),
            ("resource_providers:inventories:create", "Add an inventory."),
            ("resource_providers:inventories:show", "Show an inventory."),
            ("resource_providers:inventories:update", "Change a provider's inventories."),
            ("resource_providers:inventories:delete", "Delete a provider's inventories."),
            ("resource_providers:aggregates:list", "List a provider's aggregates."),
            ("resource_providers:aggregates:update", "Change a provider's aggregates."),
            ("resource_providers:usages", "Show a provider's usages."),
            ("resource_providers:traits:list", "List a provider's traits."),
            ("resource_providers:traits:update", "Change a provider's traits."),
            ("resource_providers:traits:delete", "Remove all traits from a provider."),
            ("resource_providers:allocations:list", "Show a provider's allocations."),
            ("traits:list", "List traits."),
            ("traits:show", "Show a trait."),
            ("traits:update", "Ensure a trait."),
            ("traits:delete", "Delete a trait."),
            ("allocations:manage", "Write several consumers' allocations."),
            ("allocations:list", "Show a consumer's allocations."),
            ("allocations:update", "Write a consumer's allocations."),
            ("allocations:delete", "Delete a consumer's allocations."),
            ("allocation_candidates:list", "List allocation candidates."),
        )
    ),
    Rule(
        "placement:usages",
        "rule:admin_or_project_reader_or_service_api",
        "Show a project's usages.",
        project_key="project_id",
    ),
    Rule(
        "placement:reshaper:reshape",
        "rule:service_api",
        "Move inventories and allocations between providers atomically.",
    ),
)


# The rules of the image API have glance's names and defaults. In addition to these rules, only the
# owner of an image or an administrator (``context_is_admin``) may change it, and its visibility
# decides who may see it.
_IMAGE = (
    Rule("get_images", _IMAGE_READER, "List images."),
    Rule("get_image", _IMAGE_READER, "Show an image."),
    Rule("add_image", _IMAGE_MEMBER, "Create an image."),
    Rule("modify_image", _IMAGE_MEMBER, "Change or tag an image of the caller's project."),
    Rule("publicize_image", ADMIN, "Publish an image (visibility public)."),
    Rule("communitize_image", _IMAGE_MEMBER, "Publish an image (visibility community)."),
    Rule("delete_image", _IMAGE_MEMBER, "Delete an image of the caller's project."),
    Rule("upload_image", _IMAGE_MEMBER, "Upload image data."),
    Rule("download_image", _IMAGE_READER, "Download image data."),
    Rule("deactivate", ADMIN, "Deactivate an image."),
    Rule("reactivate", ADMIN, "Reactivate an image."),
)

_SCHEDULER = (
    Rule("scheduler:root:show", "@", "Show the scheduler API's resources."),
    *(
        Rule(name, ADMIN_OR_SERVICE, description)
        for name, description in (
            ("scheduler:compute_nodes:report", "Report compute nodes and their resources."),
            ("scheduler:compute_nodes:list", "List compute nodes."),
            ("scheduler:compute_nodes:show", "Show a compute node."),
            ("scheduler:compute_nodes:delete", "Delete a compute node and its provider."),
            ("scheduler:aggregate_check", "Check aggregates that are reserved by traits."),
            ("scheduler:hosts:list", "List hosts with their states, traits and resources."),
            ("scheduler:hosts:show", "Show a host: its providers, instances and services."),
            ("scheduler:instances:record", "Record the host of an instance."),
            ("scheduler:instances:list", "List recorded instances."),
            ("scheduler:instances:show", "Show a recorded instance."),
            ("scheduler:instances:delete", "Delete an instance record and free its allocations."),
            ("scheduler:select_destinations", "Place instances."),
            ("scheduler:decisions:list", "List decisions."),
            ("scheduler:decisions:show", "Show a decision: the request and its outcome."),
            ("scheduler:decisions:replay", "Run the request of a decision again as a simulation."),
            ("scheduler:explain", "Explain the placement of instances without claiming."),
            ("scheduler:policies:list", "List the scheduling policies."),
            ("scheduler:policies:show", "Show a scheduling policy: its options and their sources."),
            (POLICY_HINT, "Select a scheduling policy by the scheduler hint sched_policy."),
        )
    ),
)

RULES: tuple[Rule, ...] = (
    *PLACEMENT_RULES,
    *COMPUTE_RULES,
    *_IMAGE,
    *_SCHEDULER,
    *chain.from_iterable(load_hooks("policy_rules")),
)


def list_rules() -> list[policy.RuleDefault]:
    """Return the default rules with the routes that they guard."""
    routes = {
        (route.policy, PARAMETER.sub(r"{\1}", route.path), route.method): None
        for api in (PLACEMENT, COMPUTE, IMAGE, SCHEDULER)
        for route in api.routes
    }
    operations: dict[str | None, list[policy.Operation]] = defaultdict(list)
    for name, path, method in routes:
        operations[name].append({"path": path, "method": method})
    return [rule.build_default(operations[rule.name]) for rule in RULES]


def get_enforcer() -> policy.Enforcer:
    """Return the effective rules, for a command with the global ``cfg.CONF``.

    The configuration is read from ``--config-file`` of the command, or from the files that a WSGI
    server would read. If a file cannot be read, the command ends with a short message.
    """
    try:
        read_files(cfg.CONF, cfg.CONF.get("config_file") or find_files())
    except ConfigurationError as error:
        raise SystemExit(str(error)) from None
    enforcer = policy.Enforcer(cfg.CONF)
    enforcer.register_defaults(list_rules())
    return enforcer
