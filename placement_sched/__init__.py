"""placement_sched decides where a virtual machine goes, and says why not elsewhere."""
