"""[filter_scheduler]: which filters and weighers run, and how the best is taken."""

from oslo_config import cfg

GROUP = "filter_scheduler"

OPTIONS = (
    cfg.MultiStrOpt(
        "available_filters",
        default=["placement_sched.scheduler.filters.all_filters"],
        deprecated_name="scheduler_available_filters",
        deprecated_group="DEFAULT",
        help="Filter classes that may be enabled, as dotted paths; repeatable. "
        "nova.scheduler.filters.all_filters means the shipped ones too.",
    ),
    cfg.ListOpt(
        "enabled_filters",
        default=[
            "ComputeFilter",
            "ComputeCapabilitiesFilter",
            "ImagePropertiesFilter",
            "ServerGroupAntiAffinityFilter",
            "ServerGroupAffinityFilter",
        ],
        deprecated_name="scheduler_default_filters",
        deprecated_group="DEFAULT",
        help="Host filters to run, by class name or dotted path, in this order.",
    ),
    cfg.ListOpt(
        "weight_classes",
        default=["placement_sched.scheduler.weights.all_weighers"],
        deprecated_name="scheduler_weight_classes",
        deprecated_group="DEFAULT",
        help="Weighers to run, as dotted paths. nova.scheduler.weights.all_weighers means the "
        "shipped ones too.",
    ),
    cfg.IntOpt(
        "host_subset_size",
        default=1,
        min=1,
        deprecated_name="scheduler_host_subset_size",
        deprecated_group="DEFAULT",
        help="Take a random one among this many best hosts, to spread racing schedulers.",
    ),
    cfg.BoolOpt(
        "shuffle_best_same_weighed_hosts",
        default=False,
        help="Shuffle hosts of equal best weight instead of ordering them by name.",
    ),
    cfg.BoolOpt(
        "pci_in_placement",
        default=False,
        help="Ask placement for the PCI devices of flavors, which needs hosts that report them "
        "there. An alias then is one line, and may name a resource_class instead of ids.",
    ),
)
