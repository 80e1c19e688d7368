"""Who may do what with the compute API."""

from oslo_policy import policy

RULES: tuple[policy.RuleDefault, ...] = ()
