# SPDX-License-Identifier: Apache-2.0
"""Samples of the metrics of an application."""

from prometheus_client.parser import text_string_to_metric_families
from webtest import TestApp


def read_metric_samples(app, name: str, **labels: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the samples of a metric with these labels, by their other labels."""
    text = TestApp(app.app).get("/metrics").text
    return {
        tuple(
            sorted((key, sample.labels[key]) for key in sample.labels.keys() - labels.keys())
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"placement_sched_{name}" and labels.items() <= sample.labels.items()
    }
