"""Hosts, flavors and instances, by the nouns of the compute API."""
