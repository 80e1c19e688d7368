"""The identity API: only the version document that OpenStack clients request."""
