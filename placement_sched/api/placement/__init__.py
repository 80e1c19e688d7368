"""The OpenStack Placement API."""
