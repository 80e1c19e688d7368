"""[workarounds]: what nova.conf switches off where a cloud is not ready for it."""

from oslo_config import cfg

GROUP = "workarounds"

OPTIONS = (
    cfg.BoolOpt(
        "disable_fallback_pcpu_query",
        default=False,
        help="Do not ask again for VCPU where pinned CPUs were asked for as PCPU, which hosts that "
        "report none need.",
    ),
)
