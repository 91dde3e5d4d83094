"""With VSPLADE_STRICT=1, as scripts/check sets it, a test that is skipped for want of a package is a failure.

Whole modules once went unnoticed that way: a check that runs everything must say when it does not.
"""

from __future__ import annotations

import os
import signal

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # The cores are shared out already: threads of one worker would only wait for those of the others.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell. Programs under test must not inherit that: some are interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ALLOWED = (
    "GPU",  # there is none, or there is one and the test is for machines without
    "triton",  # comes with torch's builds for GPUs
    "root",  # may read everything
    "dev sets",  # beside the checkout, not part of it
    "VSPLADE_OFFLINE",  # asked for
    "LibreOffice",  # scripts/check installs it where it may
    "mteb",  # half a gigabyte of packages for one adapter: pip install 'vsplade[mteb]'
)
"""A reason that says one of these is none to fail for."""

_reasons: dict[str, str] = {}


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(word in reason for word in ALLOWED):
            _reasons[report.nodeid] = reason


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _reasons and os.environ.get("VSPLADE_STRICT"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _reasons and os.environ.get("VSPLADE_STRICT"):
        terminalreporter.section("skipped, and must not be", red=True)
        for name, reason in sorted(_reasons.items()):
            terminalreporter.line(f"{name}: {reason}")
