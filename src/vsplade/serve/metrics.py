"""What was asked, how it ended and how long it took, over all workers, in Prometheus's text format.

Each worker counts in its own row of one memory-mapped file, so any of them can tell the sum; a worker that is
started again goes on in the row of the one before it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROUTES = ("search", "batch", "explain", "documents", "pages", "jobs", "embed_sparse", "page", "other")
STATUSES = ("2xx", "3xx", "4xx", "5xx")
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_ROW = len(STATUSES) + len(BUCKETS) + 2
"""Of one route: counts by status, the histogram with its last bucket (everything), and the sum of seconds."""
MAX_WORKERS = 64
_BYTES = 8 * MAX_WORKERS * len(ROUTES) * _ROW


def new_file(folder: str | None = None) -> str:
    handle, path = tempfile.mkstemp(prefix="vsplade-metrics-", dir=folder)
    os.truncate(handle, _BYTES)
    os.close(handle)
    return path


def route_of(path: str) -> str:
    if path == "/v1/search":
        return "search"
    parts = path.split("/", 3)
    if len(parts) > 2 and parts[1] == "v1":
        if parts[2] == "search":
            return "batch"
        return parts[2] if parts[2] in ROUTES else "other"
    if parts[1] == "embed_sparse":
        return "embed_sparse"
    return "page" if path == "/" or parts[1] == "static" else "other"


class Metrics:
    """``path``: the shared file; empty for a worker alone."""

    def __init__(self, path: str = "", worker: int = 0) -> None:
        shape = (MAX_WORKERS, len(ROUTES), _ROW)
        if path and Path(path).exists():
            with open(path, "r+b") as stream:
                memory = mmap.mmap(stream.fileno(), _BYTES)
            self._all: NDArray[np.float64] = np.frombuffer(memory, dtype=np.float64).reshape(shape)
        else:
            self._all = np.zeros(shape)
        self._mine = self._all[worker]

    def request(self, path: str, status: int, seconds: float) -> None:
        row = self._mine[ROUTES.index(route_of(path))]
        row[min(max(status // 100, 2), 5) - 2] += 1
        row[len(STATUSES) + bisect_left(BUCKETS, seconds)] += 1
        row[-1] += seconds

    def text(self, gauges: Mapping[str, float]) -> str:
        total = self._all.sum(axis=0)
        lines = [
            "# HELP vsplade_requests_total Requests, by what they asked for and how they ended.",
            "# TYPE vsplade_requests_total counter",
        ]
        for route, row in zip(ROUTES, total, strict=True):
            lines += [
                f'vsplade_requests_total{{route="{route}",status="{status}"}} {int(count)}'
                for status, count in zip(STATUSES, row, strict=False)
                if count
            ]
        lines += [
            "# HELP vsplade_request_seconds Time from a request's arrival to the end of its answer.",
            "# TYPE vsplade_request_seconds histogram",
        ]
        for route, row in zip(ROUTES, total, strict=True):
            counts = np.cumsum(row[len(STATUSES) : -1]).astype(int)
            if not counts[-1]:
                continue
            edges = [*map(str, BUCKETS), "+Inf"]
            lines += [
                f'vsplade_request_seconds_bucket{{route="{route}",le="{edge}"}} {count}'
                for edge, count in zip(edges, counts, strict=True)
            ]
            lines.append(f'vsplade_request_seconds_sum{{route="{route}"}} {row[-1]:.6f}')
            lines.append(f'vsplade_request_seconds_count{{route="{route}"}} {counts[-1]}')
        for name, value in gauges.items():
            lines += [f"# TYPE vsplade_{name} gauge", f"vsplade_{name} {value:g}"]
        return "\n".join(lines) + "\n"
