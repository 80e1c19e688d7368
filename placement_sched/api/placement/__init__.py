"""The OpenStack Placement API, microversions 1.0 to 1.39."""
