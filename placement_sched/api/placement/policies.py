"""Who may do what with the Placement API: rule names and defaults are placement's."""

from oslo_policy import policy

_ADMIN_OR_SERVICE = "rule:admin_or_service_api"


def _rule(name: str, check: str, description: str) -> policy.RuleDefault:
    return policy.RuleDefault(name, check, description=description)


RULES = (
    _rule("admin_api", "role:admin", "Administrators."),
    _rule("admin_or_service_api", "role:admin or role:service", "Administrators and services."),
    _rule("placement:resource_providers:list", _ADMIN_OR_SERVICE, "List resource providers."),
)
