"""Who may do what with the Placement API: rule names and defaults are placement's.

Source: "Placement Policies" of the Placement documentation.
"""

from placement_sched.api.policies import Rule

_ADMIN = "rule:admin_or_service_api"
_READER = "rule:admin_or_project_reader_or_service_api"
_SERVICE = "rule:service_api"


_ADMIN_ALONE = "role:admin"


def _base(name: str, check: str, description: str, formerly: str | None = _ADMIN_ALONE) -> Rule:
    return Rule(name, check, description, formerly=formerly)


def _rule(
    name: str,
    description: str,
    *operations: tuple[str, str],
    check: str = _ADMIN,
    project_key: str | None = None,
) -> Rule:
    return Rule(
        f"placement:{name}",
        check,
        description,
        tuple({"method": method, "path": path} for method, path in operations),
        project_key=project_key,
    )


_PROVIDERS = "/resource_providers"
_PROVIDER = "/resource_providers/{uuid}"
_INVENTORIES = f"{_PROVIDER}/inventories"
_INVENTORY = f"{_INVENTORIES}/{{resource_class}}"
_CLASSES = "/resource_classes"
_CLASS = "/resource_classes/{name}"
_TRAIT = "/traits/{name}"
_CONSUMER = "/allocations/{consumer_uuid}"

RULES = (
    _base("admin_api", _ADMIN_ALONE, "Administrators.", formerly=None),
    _base("service_api", "role:service", "Other services, such as nova and neutron."),
    _base("admin_or_service_api", "role:admin or role:service", "Administrators and services."),
    _base(
        "project_reader_api",
        "role:reader and project_id:%(project_id)s",
        "Those who may read what belongs to their project.",
    ),
    _base(
        "admin_or_project_reader_or_service_api",
        "role:admin or rule:project_reader_api or role:service",
        "Administrators, services, and readers of the project in question.",
    ),
    _rule("resource_providers:list", "List resource providers.", ("GET", _PROVIDERS)),
    _rule("resource_providers:create", "Create a resource provider.", ("POST", _PROVIDERS)),
    _rule("resource_providers:show", "Show a resource provider.", ("GET", _PROVIDER)),
    _rule("resource_providers:update", "Rename or move a provider.", ("PUT", _PROVIDER)),
    _rule("resource_providers:delete", "Delete a resource provider.", ("DELETE", _PROVIDER)),
    _rule("resource_classes:list", "List resource classes.", ("GET", _CLASSES)),
    _rule("resource_classes:create", "Create a resource class.", ("POST", _CLASSES)),
    _rule("resource_classes:show", "Show a resource class.", ("GET", _CLASS)),
    _rule("resource_classes:update", "Rename or ensure a class.", ("PUT", _CLASS)),
    _rule("resource_classes:delete", "Delete a resource class.", ("DELETE", _CLASS)),
    _rule("resource_providers:inventories:list", "List inventories.", ("GET", _INVENTORIES)),
    _rule("resource_providers:inventories:create", "Add an inventory.", ("POST", _INVENTORIES)),
    _rule("resource_providers:inventories:show", "Show an inventory.", ("GET", _INVENTORY)),
    _rule(
        "resource_providers:inventories:update",
        "Change a provider's inventories.",
        ("PUT", _INVENTORIES),
        ("PUT", _INVENTORY),
    ),
    _rule(
        "resource_providers:inventories:delete",
        "Delete a provider's inventories.",
        ("DELETE", _INVENTORIES),
        ("DELETE", _INVENTORY),
    ),
    _rule(
        "resource_providers:aggregates:list",
        "List a provider's aggregates.",
        ("GET", f"{_PROVIDER}/aggregates"),
    ),
    _rule(
        "resource_providers:aggregates:update",
        "Change a provider's aggregates.",
        ("PUT", f"{_PROVIDER}/aggregates"),
    ),
    _rule("resource_providers:usages", "Show a provider's usages.", ("GET", f"{_PROVIDER}/usages")),
    _rule(
        "usages",
        "Show a project's usages.",
        ("GET", "/usages"),
        check=_READER,
        project_key="project_id",
    ),
    _rule("traits:list", "List traits.", ("GET", "/traits")),
    _rule("traits:show", "Show a trait.", ("GET", _TRAIT)),
    _rule("traits:update", "Ensure a trait.", ("PUT", _TRAIT)),
    _rule("traits:delete", "Delete a trait.", ("DELETE", _TRAIT)),
    _rule(
        "resource_providers:traits:list",
        "List a provider's traits.",
        ("GET", f"{_PROVIDER}/traits"),
    ),
    _rule(
        "resource_providers:traits:update",
        "Change a provider's traits.",
        ("PUT", f"{_PROVIDER}/traits"),
    ),
    _rule(
        "resource_providers:traits:delete",
        "Take all traits from a provider.",
        ("DELETE", f"{_PROVIDER}/traits"),
    ),
    _rule("allocations:manage", "Write several consumers' allocations.", ("POST", "/allocations")),
    _rule("allocations:list", "Show a consumer's allocations.", ("GET", _CONSUMER)),
    _rule("allocations:update", "Write a consumer's allocations.", ("PUT", _CONSUMER)),
    _rule("allocations:delete", "Delete a consumer's allocations.", ("DELETE", _CONSUMER)),
    _rule(
        "resource_providers:allocations:list",
        "Show the allocations from a provider.",
        ("GET", f"{_PROVIDER}/allocations"),
    ),
    _rule(
        "allocation_candidates:list",
        "List allocation candidates.",
        ("GET", "/allocation_candidates"),
    ),
    _rule(
        "reshaper:reshape",
        "Move inventories and allocations between providers at once.",
        ("POST", "/reshaper"),
        check=_SERVICE,
    ),
)
