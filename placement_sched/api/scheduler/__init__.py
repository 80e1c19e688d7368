"""The scheduler API: compute nodes, instances, select_destinations and explain."""
