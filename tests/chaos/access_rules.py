# SPDX-License-Identifier: Apache-2.0
"""The policy rule of each route and the callers that it accepts, written by hand.

The sources are the policy references of placement, nova and glance, and our guide.
``test_callers.py`` fails if a route has another ``policy=`` or its rule another default.
"""

from collections.abc import Mapping

#: Callers with a token of the objects' project, and their roles.
PROJECT_ROLES = {
    "reader": ("reader",),
    "member": ("member", "reader"),
    "service": ("service",),
    "admin": ("admin", "member", "reader"),
    "no role": (),
}
#: Callers with the same roles in another project.
OTHER_PROJECT_ROLES = {
    f"{name} elsewhere": PROJECT_ROLES[name] for name in ("reader", "member", "admin")
}
#: Callers with a system token. Policy rules accept only project tokens.
SYSTEM_ROLES = {"system reader": ("reader",), "system admin": ("admin", "member", "reader")}

#: Sets of callers, the keys of the table. ``tests/api/image`` tests members of shared images.
ADMIN_CALLERS = frozenset({"admin", "admin elsewhere"})
SERVICE_CALLERS = frozenset({"service"})
READER_CALLERS = ADMIN_CALLERS | {"reader", "member", "reader elsewhere", "member elsewhere"}
MEMBER_CALLERS = ADMIN_CALLERS | {"member", "member elsewhere"}
#: The same for requests that name a project or an object of a project.
PROJECT_READERS = ADMIN_CALLERS | {"reader", "member"}
PROJECT_MEMBERS = ADMIN_CALLERS | {"member"}
PROJECT_CALLERS = frozenset({*PROJECT_ROLES, *OTHER_PROJECT_ROLES})
SIGNED_IN_CALLERS = PROJECT_CALLERS | frozenset(SYSTEM_ROLES)

#: A line has a path, the prefix of its rules' names, and the suffix of the name for each method
#: (and action). The suffix "." is empty.
API_ROUTES_BY_CALLERS: Mapping[frozenset[str], str] = {
    ADMIN_CALLERS | SERVICE_CALLERS: """
/placement/resource_providers placement:resource_providers GET=list POST=create
/placement/resource_providers/<uuid> placement:resource_providers GET=show PUT=update DELETE=delete
/placement/resource_providers/<uuid>/inventories placement:resource_providers:inventories \
    GET=list POST=create PUT=update DELETE=delete
/placement/resource_providers/<uuid>/inventories/<resource_class> \
    placement:resource_providers:inventories GET=show PUT=update DELETE=delete
/placement/resource_providers/<uuid>/aggregates placement:resource_providers:aggregates \
    GET=list PUT=update
/placement/resource_providers/<uuid>/traits placement:resource_providers:traits \
    GET=list PUT=update DELETE=delete
/placement/resource_providers/<uuid>/allocations placement:resource_providers:allocations GET=list
/placement/resource_providers/<uuid>/usages placement:resource_providers:usages GET=.
/placement/traits placement:traits GET=list
/placement/traits/<name> placement:traits GET=show PUT=update DELETE=delete
/placement/resource_classes placement:resource_classes GET=list POST=create
/placement/resource_classes/<name> placement:resource_classes GET=show PUT=update DELETE=delete
/placement/allocations placement:allocations POST=manage
/placement/allocations/<consumer_uuid> placement:allocations GET=list PUT=update DELETE=delete
/placement/allocation_candidates placement:allocation_candidates GET=list
/scheduler/v1/compute_nodes scheduler:compute_nodes GET=list POST=report
/scheduler/v1/compute_nodes/<uuid> scheduler:compute_nodes GET=show PUT=report DELETE=delete
/scheduler/v1/instances scheduler:instances GET=list
/scheduler/v1/instances/<uuid> scheduler:instances GET=show PUT=record DELETE=delete
/scheduler/v1/hosts scheduler:hosts GET=list
/scheduler/v1/hosts/<path:host> scheduler:hosts GET=show
/scheduler/v1/overview scheduler:hosts GET=list
/scheduler/v1/aggregate_check scheduler:aggregate_check GET=.
/scheduler/v1/decisions scheduler:decisions GET=list
/scheduler/v1/decisions/<uuid> scheduler:decisions GET=show
/scheduler/v1/decision_counts scheduler:decisions GET=list
/scheduler/v1/decisions/<uuid>/replay scheduler:decisions POST=replay
/scheduler/v1/select_destinations scheduler:select_destinations POST=.
/scheduler/v1/explain scheduler:explain POST=.
/scheduler/v1/capacity scheduler:capacity POST=.
/scheduler/v1/failover_capacity scheduler:failover_capacity GET=. POST=.
/scheduler/v1/load scheduler:load GET=list
/scheduler/v1/load/<path:host> scheduler:load GET=show
/scheduler/v1/plan scheduler:plan POST=.
/scheduler/v1/evacuation scheduler:evacuation POST=.
/scheduler/v1/rebalance scheduler:rebalance POST=.
/scheduler/v1/violations scheduler:violations GET=. POST=.
/scheduler/v1/plan_runs scheduler:plan_runs GET=list
/scheduler/v1/plan_runs/<uuid> scheduler:plan_runs GET=show
/scheduler/v1/policies scheduler:policies GET=list
/scheduler/v1/policies/<name> scheduler:policies GET=show
""",
    SERVICE_CALLERS: "/placement/reshaper placement:reshaper POST=reshape",
    PROJECT_READERS | SERVICE_CALLERS: "/placement/usages placement:usages GET=.",
    ADMIN_CALLERS: """
/scheduler/v1/plan_runs scheduler:plan_runs POST=execute
/scheduler/v1/plan_runs/<uuid> scheduler:plan_runs PUT=execute
/scheduler/v1/plan_runs/<uuid>/moves/<instance> scheduler:plan_runs PUT=execute
/compute/v2.1/os-aggregates os_compute_api:os-aggregates GET=index POST=create
/compute/v2.1/os-aggregates/<aggregate_id> os_compute_api:os-aggregates \
    GET=show PUT=update DELETE=delete
/compute/v2.1/os-aggregates/<aggregate_id>/action os_compute_api:os-aggregates \
    POST.add_host=add_host POST.remove_host=remove_host POST.set_metadata=set_metadata
/compute/v2.1/os-aggregates/<aggregate_id>/images compute:aggregates:images POST=.
/compute/v2.1/flavors os_compute_api:os-flavor-manage POST=create
/compute/v2.1/flavors/<flavor_id> os_compute_api:os-flavor-manage PUT=update DELETE=delete
/compute/v2.1/flavors/<flavor_id>/os-flavor-access os_compute_api:os-flavor-access GET=.
/compute/v2.1/flavors/<flavor_id>/action os_compute_api:os-flavor-access \
    POST.addTenantAccess=add_tenant_access POST.removeTenantAccess=remove_tenant_access
/compute/v2.1/flavors/<flavor_id>/os-extra_specs os_compute_api:os-flavor-extra-specs POST=create
/compute/v2.1/flavors/<flavor_id>/os-extra_specs/<key> os_compute_api:os-flavor-extra-specs \
    PUT=update DELETE=delete
/compute/v2.1/os-migrations os_compute_api:os-migrations GET=index
/compute/v2.1/os-services os_compute_api:os-services GET=list
/compute/v2.1/os-services/enable os_compute_api:os-services PUT=update
/compute/v2.1/os-services/disable os_compute_api:os-services PUT=update
/compute/v2.1/os-services/disable-log-reason os_compute_api:os-services PUT=update
/compute/v2.1/os-services/force-down os_compute_api:os-services PUT=update
/compute/v2.1/os-services/<service_id> os_compute_api:os-services PUT=update DELETE=delete
/compute/v2.1/os-hypervisors os_compute_api:os-hypervisors GET=list
/compute/v2.1/os-hypervisors/detail os_compute_api:os-hypervisors GET=list-detail
/compute/v2.1/os-hypervisors/statistics os_compute_api:os-hypervisors GET=statistics
/compute/v2.1/os-hypervisors/<hypervisor_id> os_compute_api:os-hypervisors GET=show
/compute/v2.1/os-hypervisors/<hypervisor_id>/uptime os_compute_api:os-hypervisors GET=uptime
/compute/v2.1/os-hypervisors/<hypervisor_id>/search os_compute_api:os-hypervisors GET=search
/compute/v2.1/os-hypervisors/<hypervisor_id>/servers os_compute_api:os-hypervisors GET=servers
/compute/v2.1/os-availability-zone/detail os_compute_api:os-availability-zone GET=detail
/image/v2/images/<image_id>/actions/deactivate deactivate POST=.
/image/v2/images/<image_id>/actions/reactivate reactivate POST=.
""",
    READER_CALLERS: """
/compute/v2.1/flavors os_compute_api:flavors GET=.
/compute/v2.1/flavors/detail os_compute_api:flavors GET=.
/compute/v2.1/flavors/<flavor_id> os_compute_api:flavors GET=.
/compute/v2.1/flavors/<flavor_id>/os-extra_specs os_compute_api:os-flavor-extra-specs GET=index
/compute/v2.1/flavors/<flavor_id>/os-extra_specs/<key> os_compute_api:os-flavor-extra-specs GET=show
/compute/v2.1/os-server-groups os_compute_api:os-server-groups GET=index
/compute/v2.1/os-availability-zone os_compute_api:os-availability-zone GET=list
/compute/v2.1/servers os_compute_api:servers GET=index
/compute/v2.1/servers/detail os_compute_api:servers GET=detail
/image/v2/images get_images GET=.
/image/v2/schemas/image get_image GET=.
/image/v2/schemas/images get_image GET=.
/image/v2/schemas/member get_image GET=.
/image/v2/schemas/members get_image GET=.
/image/v2/info/import get_images GET=.
/image/v2/images/<image_id>/members get_image GET=. POST=.
/image/v2/images/<image_id>/members/<member_id> get_image GET=. PUT=. DELETE=.
""",
    MEMBER_CALLERS: """
/compute/v2.1/os-server-groups os_compute_api:os-server-groups POST=create
/image/v2/images add_image POST=.
""",
    PROJECT_READERS: """
/compute/v2.1/os-server-groups/<server_group_id> os_compute_api:os-server-groups GET=show
/compute/v2.1/servers/<server_id> os_compute_api:servers GET=show
/image/v2/images/<image_id> get_image GET=.
/image/v2/images/<image_id>/file download_image GET=.
""",
    PROJECT_MEMBERS: """
/compute/v2.1/os-server-groups/<server_group_id> os_compute_api:os-server-groups DELETE=delete
/image/v2/images/<image_id> modify_image PATCH=.
/image/v2/images/<image_id> delete_image DELETE=.
/image/v2/images/<image_id>/tags/<tag> modify_image PUT=. DELETE=.
/image/v2/images/<image_id>/file upload_image PUT=.
""",
    # Rejected for all callers, because compute services create instances and report them.
    frozenset(): """
/compute/v2.1/servers os_compute_api:servers POST=create
/compute/v2.1/servers/<server_id> os_compute_api:servers PUT=update DELETE=delete
/compute/v2.1/servers/<server_id>/action os_compute_api:servers POST=update
""",
    PROJECT_CALLERS: """
/scheduler/ scheduler:root GET=show
/scheduler/v1 scheduler:root GET=show
/scheduler/v1/ scheduler:root GET=show
""",
}
#: Routes and pages without a token.
PUBLIC_PATHS = """
/ GET
/healthz GET
/healthz/live GET
/healthz/ready GET
/metrics GET
/placement/ GET
/placement/openapi.json GET
/scheduler/v1/openapi.json GET
/compute/ GET
/compute/v2.1 GET
/compute/v2.1/ GET
/image/ GET
/image/v2 GET
/image/v2/ GET
/image/versions GET
/image/versions/ GET
/identity/ GET
/identity/v3 GET
/identity/v3/ GET
/identity/v3/<path:below> GET HEAD POST PUT PATCH DELETE
/console/static/<path:filename> GET
/console/sign-in GET POST
/console/sign-out GET POST
/console/<anything:rest> GET POST PUT PATCH DELETE
"""
#: Callers of the console's pages, equal to the callers of the APIs behind a page.
CONSOLE_PAGES_BY_CALLERS: Mapping[frozenset[str], str] = {
    ADMIN_CALLERS | SERVICE_CALLERS: """
/console/ GET
/console/overview/findings GET
/console/overview/fits GET
/console/cloud GET
/console/cloud.csv GET
/console/hosts/<path:name> GET
/console/ask GET
/console/ask/report GET
/console/decisions GET
/console/decisions.csv GET
/console/decisions/<uuid> GET
/console/decisions/<uuid>/report GET
/console/decisions/<uuid>/replay GET
/console/capacity GET
/console/capacity.csv GET
/console/capacity/failover GET
/console/capacity/plan GET
/console/capacity/row GET
/console/capacity/report GET
/console/capacity/moves GET
/console/plan_runs GET
/console/plan_runs/<uuid> GET
/console/policies GET
/console/api/<path:path> GET POST
""",
    ADMIN_CALLERS: """
/console/aggregates GET
/console/aggregates.csv GET
""",
    # The pages have the objects that the APIs return to the caller.
    SIGNED_IN_CALLERS: """
/console/search GET
/console/cloud/running GET
""",
}


def list_policy_rules_and_callers_by_route() -> dict[str, tuple[str, frozenset[str]]]:
    """Return rule and accepted callers of each route, by method, path and action."""
    rules = {}
    for who, lines in API_ROUTES_BY_CALLERS.items():
        for line in lines.replace("\\\n", " ").strip().splitlines():
            path, begins, *ends = line.split()
            for item in ends:
                method, _, end = item.partition("=")
                verb, _, action = method.partition(".")
                name = " ".join(filter(None, (verb, path, action)))
                assert name not in rules, f"duplicate line for {name}"
                rules[name] = begins if end == "." else f"{begins}:{end}", who
    return rules


def list_callers_by_page() -> dict[str, frozenset[str] | None]:
    """Return the callers of each page by method and path, None for pages without a token."""
    rules: dict[str, frozenset[str] | None] = {}
    for who, lines in [*CONSOLE_PAGES_BY_CALLERS.items(), (None, PUBLIC_PATHS)]:
        for line in lines.strip().splitlines():
            path, *methods = line.split()
            rules |= {f"{method} {path}": who for method in methods}
    return rules
