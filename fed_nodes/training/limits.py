"""What the training process may take of the machine: CPUs, when it runs on them, memory."""

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fed_core.config import check, option
from fed_core.errors import ConfigError

NORMAL, BATCH, IDLE = "normal", "batch", "idle"

#: Memory that PyTorch takes before it has trained anything, with room for a small network [MB].
SMALLEST_MEMORY_MB = 512
#: The first to go when the machine has no memory left (0 = as likely as others, 1000 = always).
_OOM_SCORE = 800

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingLimits:
    """What training may take of this machine (``config/robot_client.yaml``, docs/training_on_robots.md)."""

    threads: int = option(1, help="CPU threads of the training process", unit="count", low=1, high=1024)
    nice: int = option(5, help="niceness of the training process; idle scheduling ignores it", low=0, high=19)
    scheduling: str = option(
        IDLE, help="when training gets a CPU; idle: only one that nobody else wants", choices=(NORMAL, BATCH, IDLE)
    )
    cpus: str = option("", help="CPUs of the training process, as 0,2-3; empty = all")
    memory_mb: int = option(
        0, help="most memory of the training process, GPU memory apart; 0 = no limit", unit="MB", low=0, high=10_000_000
    )
    gpu: int = option(-1, help="number of the GPU that trains, as nvidia-smi counts; -1 = the first", low=-1, high=63)
    gpu_memory_share: float = option(1.0, help="most of the GPU's memory; 1 = no limit", unit="1", low=0.01, high=1.0)

    def __post_init__(self) -> None:
        check(self)
        cpu_numbers(self.cpus)
        if 0 < self.memory_mb < SMALLEST_MEMORY_MB:
            text = f"memory_mb is {self.memory_mb}, and PyTorch alone needs most of {SMALLEST_MEMORY_MB}"
            raise ConfigError(f"{text}; set it to {SMALLEST_MEMORY_MB} or more, or to 0 for no limit")

    def require_machine(self) -> None:
        """Refuse CPUs that this process cannot give to a child."""
        allowed = _own_cpus()
        missing = sorted(cpu_numbers(self.cpus) - allowed)
        if missing and allowed:
            own = ", ".join(map(str, sorted(allowed)))
            raise ConfigError(f"cpus is {self.cpus!r}, but CPU {missing[0]} is not one of this process: {own}")

    def environment(self) -> dict[str, str]:
        """Return the variables of the training process; they must be there before PyTorch is imported."""
        threads = str(self.threads)
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        gpu = {"CUDA_VISIBLE_DEVICES": str(self.gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if self.gpu >= 0 else {}
        return {**dict.fromkeys(names, threads), **gpu}

    def arguments(self) -> list[str]:
        """Return the options of ``fed_nodes.training.trainer``."""
        return [
            f"--nice={self.nice}",
            f"--scheduling={self.scheduling}",
            f"--cpus={self.cpus}",
            f"--memory-mb={self.memory_mb}",
            f"--gpu-memory-share={self.gpu_memory_share}",
        ]


def cpu_numbers(text: str) -> frozenset[int]:
    """Return the CPUs of a list as Linux writes them: ``0,2-3``; the empty text is no CPU."""
    found: set[int] = set()
    for part in text.replace(" ", "").split(",") if text.strip() else ():
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ConfigError(f"cpus is {text!r}; write numbers and ranges such as 0,2-3, or nothing for all CPUs")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def limit_this_process(limits: TrainingLimits) -> None:
    """Apply limits to this process, before it starts a thread: threads inherit them.

    What the system refuses (a container may) is a warning: training without a limit is better than none.
    """
    os.nice(limits.nice)
    if limits.cpus and hasattr(os, "sched_setaffinity"):
        with _told("cpus"):
            os.sched_setaffinity(0, cpu_numbers(limits.cpus))
    policy = {BATCH: "SCHED_BATCH", IDLE: "SCHED_IDLE"}.get(limits.scheduling, "")
    if hasattr(os, policy):
        with _told("scheduling"):
            os.sched_setscheduler(0, getattr(os, policy), os.sched_param(0))
    if limits.memory_mb:
        with _told("memory_mb"):
            _limit_memory(limits.memory_mb * 1_000_000)
    with contextlib.suppress(OSError):  # not on every system
        Path("/proc/self/oom_score_adj").write_text(f"{_OOM_SCORE}\n", encoding="ascii")


def limit_gpu_memory(share: float) -> None:
    """Limit what this process takes of its GPU's memory; imports PyTorch."""
    if share < 1.0:
        import torch

        if torch.cuda.is_available():
            torch.cuda.set_per_process_memory_fraction(share)


def _limit_memory(size_bytes: int) -> None:
    import resource

    # Not RLIMIT_AS: CUDA reserves far more addresses than it uses. Not RLIMIT_RSS: Linux ignores it.
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size_bytes if hard < 0 else min(size_bytes, hard), hard))


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as err:
        _log.warning("training runs without the limit %s, which the system refuses: %s", what, err)


def _own_cpus() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


#: For work that others wait for, such as the initial model of a fleet.
PLAIN = TrainingLimits(scheduling=NORMAL)
