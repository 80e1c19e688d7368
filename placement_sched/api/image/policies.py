"""Who may do what with the image API."""

from oslo_policy import policy

RULES: tuple[policy.RuleDefault, ...] = ()
