"""The identity version document that OpenStack clients ask for."""
