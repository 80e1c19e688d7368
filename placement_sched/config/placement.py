"""[placement]: how allocation candidates are answered."""

from oslo_config import cfg

GROUP = "placement"

OPTIONS = (
    cfg.BoolOpt(
        "randomize_allocation_candidates",
        default=False,
        help="Answer GET /allocation_candidates with a fair random sample of what fits instead of "
        "the first by provider id. Without a limit only the order changes.",
    ),
    cfg.IntOpt(
        "max_allocation_candidates",
        default=-1,
        min=-1,
        help="Upper bound of candidates in one answer, whatever limit the caller gives; -1 none.",
    ),
    cfg.StrOpt(
        "allocation_candidates_generation_strategy",
        default="depth-first",
        choices=[
            ("depth-first", "all candidates of one tree before the next tree"),
            ("breadth-first", "candidates of all trees in turn"),
        ],
        help="From which trees candidates are taken first when a limit cuts them.",
    ),
    cfg.IntOpt(
        "allocation_conflict_retry_count",
        default=10,
        min=0,
        help="How often a write, of allocations or anything else, that met a deadlock or a rival "
        "is tried again, with jitter, before it is answered with 409 or 503.",
    ),
    cfg.IntOpt(
        "allocation_candidates_budget",
        default=5_000_000,
        min=0,
        help="How much work one request for candidates may make where groups, trees and sharing "
        "providers are combined: a step for each provider tried for a group (more where it "
        "completes many rules of same_subtree), and one for every 20 characters of a candidate "
        "found (the more groups and providers it names, the more: 10 for one of one group). A "
        "request that needs more is answered with 400; 0 no bound. A million steps take one to "
        "three seconds, or 20 MB of candidates.",
    ),
    cfg.IntOpt(
        "max_request_groups",
        default=64,
        min=1,
        help="How many groups (resources, resources1, resources_NET, ...) one request for "
        "candidates may have; one with more is answered with 400.",
    ),
    cfg.IntOpt(
        "max_member_of",
        default=256,
        min=1,
        help="How many sets of aggregates (member_of, unless forbidden) one request for "
        "candidates may name. Where groups, trees and sharing providers are combined, those of "
        "the group without suffix count once for each of its resource classes. One with more is "
        "answered with 400.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_project_id",
        default="00000000-0000-0000-0000-000000000000",
        help="Project of consumers written before microversion 1.8, which names none.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_user_id",
        default="00000000-0000-0000-0000-000000000000",
        help="User of consumers written before microversion 1.8, which names none.",
    ),
)
