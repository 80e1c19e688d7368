"""Policy rules of the compute API, with nova's names and defaults."""

from placement_sched.api.policies import Rule

_ADMIN = "rule:context_is_admin"
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
_HYPERVISORS = "os_compute_api:os-hypervisors"


def _rule(name: str, description: str, check: str = _ADMIN) -> Rule:
    return Rule(name, check, description)


RULES = (
    _rule(
        "context_is_admin",
        "Administrators of the compute and image APIs, who see all.",
        "role:admin",
    ),
    _rule(
        "project_reader_or_admin",
        "Administrators, and readers of the project in question.",
        "rule:project_reader_api or rule:context_is_admin",
    ),
    _rule(
        "project_member_api",
        "Those who may change what belongs to their project.",
        "role:member and project_id:%(project_id)s",
    ),
    _rule(
        "project_member_or_admin",
        "Administrators, and members of the project in question.",
        "rule:project_member_api or rule:context_is_admin",
    ),
    _rule(f"{_AGGREGATES}:index", "List host aggregates."),
    _rule(f"{_AGGREGATES}:create", "Create a host aggregate."),
    _rule(f"{_AGGREGATES}:show", "Show a host aggregate."),
    _rule(f"{_AGGREGATES}:update", "Change a host aggregate's name or availability zone."),
    _rule(f"{_AGGREGATES}:delete", "Delete a host aggregate."),
    _rule(f"{_AGGREGATES}:add_host", "Add a host to a host aggregate."),
    _rule(f"{_AGGREGATES}:remove_host", "Remove a host from a host aggregate."),
    _rule(f"{_AGGREGATES}:set_metadata", "Change a host aggregate's metadata."),
    _rule("compute:aggregates:images", "Ask that images be cached on a host aggregate's hosts."),
    _rule("os_compute_api:flavors", "List and show flavors.", _READER),
    _rule(f"{_MANAGE}:create", "Create a flavor."),
    _rule(f"{_MANAGE}:update", "Change the description of a flavor."),
    _rule(f"{_MANAGE}:delete", "Delete a flavor."),
    _rule(_ACCESS, "List the projects that a private flavor is for."),
    _rule(f"{_ACCESS}:add_tenant_access", "Grant a project access to a private flavor."),
    _rule(f"{_ACCESS}:remove_tenant_access", "Revoke a project's access to a private flavor."),
    _rule(f"{_EXTRA_SPECS}:index", "List the extra specs of a flavor.", _READER),
    _rule(f"{_EXTRA_SPECS}:show", "Show an extra spec of a flavor.", _READER),
    _rule(f"{_EXTRA_SPECS}:create", "Set extra specs of a flavor."),
    _rule(f"{_EXTRA_SPECS}:update", "Set one extra spec of a flavor."),
    _rule(f"{_EXTRA_SPECS}:delete", "Delete an extra spec of a flavor."),
    _rule(f"{_GROUPS}:index", "List the server groups of one's project.", _READER),
    _rule(f"{_GROUPS}:index:all_projects", "List the server groups of all projects."),
    _rule(f"{_GROUPS}:create", "Create a server group.", _MEMBER),
    _rule(f"{_GROUPS}:show", "Show a server group.", _READER),
    _rule(f"{_GROUPS}:delete", "Delete a server group.", _MEMBER),
    _rule(f"{_SERVICES}:list", "List compute services."),
    _rule(f"{_SERVICES}:update", "Enable, disable or force down a compute service."),
    _rule(f"{_SERVICES}:delete", "Delete a compute service with its host's compute nodes."),
    _rule(f"{_HYPERVISORS}:list", "List hypervisors by name."),
    _rule(f"{_HYPERVISORS}:list-detail", "List hypervisors with what their hosts reported."),
    _rule(f"{_HYPERVISORS}:statistics", "Show what all enabled hypervisors have together."),
    _rule(f"{_HYPERVISORS}:show", "Show a hypervisor."),
    _rule(f"{_HYPERVISORS}:uptime", "Show the uptime of a hypervisor."),
    _rule(f"{_HYPERVISORS}:search", "Find hypervisors by a part of their name."),
    _rule(f"{_HYPERVISORS}:servers", "List the instances of hypervisors."),
    _rule(f"{_ZONES}:list", "List availability zones.", _READER),
    _rule(f"{_ZONES}:detail", "List availability zones with their hosts."),
    _rule(f"{_SERVERS}:index", "List servers by name and id.", _READER),
    _rule(f"{_SERVERS}:index:get_all_tenants", "List servers of all projects by name and id."),
    _rule(f"{_SERVERS}:detail", "List servers.", _READER),
    _rule(f"{_SERVERS}:detail:get_all_tenants", "List servers of all projects."),
    _rule(f"{_SERVERS}:allow_all_filters", "Filter lists of servers by any field."),
    _rule(f"{_SERVERS}:show", "Show a server.", _READER),
    _rule(f"{_SERVERS}:show:host_status", "See the status of servers' hosts."),
    _rule(f"{_SERVERS}:show:host_status:unknown-only", "See that the status of a host is unknown."),
    _rule("os_compute_api:os-extended-server-attributes", "See which hosts servers are on."),
    _rule(f"{_SERVERS}:create", "Create a server (always rejected).", _MEMBER),
    _rule(f"{_SERVERS}:update", "Change a server (always rejected).", _MEMBER),
    _rule(f"{_SERVERS}:delete", "Delete a server (always rejected).", _MEMBER),
)
