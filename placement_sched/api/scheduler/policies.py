"""Who may do what with the scheduler API."""

from oslo_policy import policy

RULES: tuple[policy.RuleDefault, ...] = ()
