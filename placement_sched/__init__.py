"""An OpenStack Placement API and scheduler that explains its decisions."""
