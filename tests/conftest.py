"""Fixtures and rules of all tests: where recordings are, no network, ROS tests one after the other."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

try:
    import hypothesis
except ImportError:  # a stock ROS container may lack it; the tests that need it fail by themselves
    hypothesis = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parents[1]
IN_CI = os.environ.get("CI", "").lower() == "true"
#: Tests under these folders start processes that talk over DDS; two at once would fight for the cores.
SERIAL_FOLDERS = ("tests/nodes", "tests/ros")

# Fleets of other users and machines must neither see nor disturb the tests.
os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")

# A job in the background of a shell ignores interrupts, and so would all that the tests start and stop by them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where recordings are is for `shared_data`; what is tested must not read relative paths from there. Workers inherit it.
_RECORDINGS = "FED_PERCEPTION_TEST_DATA"
if "FED_PERCEPTION_DATA" in os.environ:
    os.environ[_RECORDINGS] = os.environ.pop("FED_PERCEPTION_DATA")

if hypothesis is not None:
    hypothesis.settings.register_profile("house", deadline=None)
    hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("ci" if IN_CI else "house")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with recordings: FED_PERCEPTION_DATA, else ../shared/data beside the repository."""
    named = os.environ.get(_RECORDINGS)
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no recordings at {folder}; set FED_PERCEPTION_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium that does not look at the network by itself; for one module, as its event loop must end."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    quiet = ("quic", "gpu", "background-networking", "component-update", "sync")
    arguments = ["--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in quiet)]
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=program, args=arguments)
        yield opened
        opened.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole files, and all ROS tests to one worker (`pytest -n 2`)."""
    from xdist.scheduler import LoadScopeScheduling

    class OneWorkerForRos(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "ros" if nodeid.startswith(SERIAL_FOLDERS) else nodeid.split("::")[0]

    return OneWorkerForRos(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip GPU tests where there is no GPU."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections that leave this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = str(address[0])
            if not (host.startswith("127.") or host in ("::1", "localhost", "0.0.0.0", "")):
                raise RuntimeError(f"a test wanted to reach {host}; tests use no network")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
