"""The gauges of ``/metrics`` that are read when a scrape asks for them."""
