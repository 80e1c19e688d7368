# SPDX-License-Identifier: Apache-2.0
"""The picture of a run: growth with the cloud, and what a request takes of both."""

import statistics
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from growth import Curve
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from pairs import Result

_OURS, _PEER = "#1f77b4", "#d62728"


def draw(path: Path, results: Sequence[Result], curves: Sequence[Curve]) -> bool:
    """Write a PNG to ``path`` of what there is to show; return whether there was anything."""
    raced = [one for one in results if one.peer is not None]
    panels = [kind for kind, shown in (("pairs", raced), ("growth", curves)) if shown]
    if not panels:
        return False
    mpl.use("Agg")
    height = max(3.5, 0.35 * len(raced) + 1.2)
    figure, axes = plt.subplots(1, len(panels), figsize=(10 * len(panels), height))
    for kind, axis in zip(panels, [axes] if len(panels) == 1 else axes, strict=True):
        if kind == "pairs":
            _draw_pairs(axis, raced)
        else:
            _draw_growth(axis, curves)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=70)
    plt.close(figure)
    return True


def _draw_pairs(axis: Axes, raced: Sequence[Result]) -> None:
    """Draw both times of each question as dots on a line, with the ratio beside."""
    for row, one in enumerate(reversed(raced)):
        own, theirs = one.ours.median, one.peer.median if one.peer else 0.0
        axis.plot([own, theirs], [row, row], color="0.8", zorder=1)
        axis.scatter([own], [row], color=_OURS, zorder=2)
        axis.scatter([theirs], [row], color=_PEER, zorder=2)
        axis.annotate(f"{one.ratios[0]:.0f}x", (theirs, row), (6, -3), textcoords="offset points")
    axis.set_yticks(range(len(raced)), [one.question.name for one in reversed(raced)])
    axis.set_xscale("log")
    axis.margins(x=0.15, y=1 / (len(raced) + 1))
    axis.set_xlabel("ms: ours (blue), openstack-placement (red)")


def _draw_growth(axis: Axes, curves: Sequence[Curve]) -> None:
    for style, curve in zip(("-o", "--o", ":o"), curves, strict=False):
        sizes = sorted(curve.ours_ms)
        medians = [statistics.median(curve.ours_ms[size]) for size in sizes]
        axis.plot(sizes, medians, style, color=_OURS, label=f"ours, {curve.name}")
        if curve.peer_ms:
            known = sorted(curve.peer_ms)
            times = [curve.peer_ms[size] for size in known]
            label = f"openstack-placement, {curve.name}"
            axis.plot(known, times, style, color=_PEER, label=label)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("hosts")
    axis.set_ylabel("ms")
    axis.legend()
