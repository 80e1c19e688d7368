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
