"""Checks of the machine: Python, memory, disk, sockets, GPU."""

import shutil
import sys
from pathlib import Path

import psutil

from fed_cli.fleetrun.shared_memory import SHARED_MEMORY, dead_segments
from fed_cli.health.report import FAIL, OK, WARN, Check, probe

GIB = 1024**3
UDP_LIMIT = Path("/proc/sys/net/core/rmem_max")
SUPPORTED = ((3, 10), (3, 12))
WANTED_UDP_BYTES = 4 * 1024 * 1024  # the socket buffer of the fleet's DDS profile
WANTED_SHM_BYTES = 512 * 1024 * 1024


def python(version: tuple[int, int] = (sys.version_info[0], sys.version_info[1])) -> Check:
    """Check that this interpreter is a supported one."""
    text = f"{version[0]}.{version[1]} in {sys.prefix}"
    if SUPPORTED[0] <= version <= SUPPORTED[1]:
        return Check("Python", OK, text)
    return Check("Python", FAIL, text, "use Python 3.10, 3.11 or 3.12: make setup PYTHON=/path/to/python3.11")


def shared_memory(folder: Path = SHARED_MEMORY) -> Check:
    """Check the room for DDS segments and whether killed programs left some behind."""
    if not folder.is_dir():
        return Check("shared memory", WARN, f"no {folder}", "DDS falls back to UDP; mount a tmpfs there for full speed")
    free = shutil.disk_usage(folder).free
    stale = dead_segments(folder)
    text = f"{free / GIB:.1f} GiB free, {len(stale)} segments left by killed programs"
    if free < WANTED_SHM_BYTES:
        return Check("shared memory", WARN, text, "give /dev/shm at least 512 MiB (container: --shm-size=1g)")
    if len(stale) > 20:
        return Check("shared memory", WARN, text, "run: fastdds shm clean")
    return Check("shared memory", OK, text)


def udp_buffers(limit_file: Path = UDP_LIMIT) -> Check:
    """Check that the kernel grants the socket buffers that large models want."""
    try:
        limit = int(limit_file.read_text())
    except (OSError, ValueError):
        return Check(
            "UDP buffers", WARN, "limit not readable", "large models over Wi-Fi may be slow; see docs of your system"
        )
    text = f"receive limit {limit // 1024} KiB"
    if limit >= WANTED_UDP_BYTES:
        return Check("UDP buffers", OK, text)
    return Check("UDP buffers", WARN, text, f"between machines: sudo sysctl -w net.core.rmem_max={WANTED_UDP_BYTES}")


def memory() -> Check:
    """Check the free memory: a robot that trains takes about 1 GiB, the demo up to 12."""
    free = psutil.virtual_memory().available
    text = f"{free / GIB:.1f} of {psutil.virtual_memory().total / GIB:.1f} GiB free, {psutil.cpu_count()} cores"
    if free < GIB:
        return Check("memory", FAIL, text, "free at least 1 GiB; a robot cannot train with less")
    if free < 8 * GIB:
        return Check("memory", WARN, text, "enough for a robot; the demo with all its robots wants 8 GiB")
    return Check("memory", OK, text)


def disk(folder: Path | None = None) -> Check:
    """Check the space for runs below ``folder`` (default: the working folder)."""
    place = folder or Path.cwd()
    free = shutil.disk_usage(place).free
    text = f"{free / GIB:.1f} GiB free at {place}"
    if free < GIB // 2:
        return Check("disk", FAIL, text, "free at least 0.5 GiB, runs keep models and samples here")
    if free < 5 * GIB:
        return Check("disk", WARN, text, "remove old runs soon; 5 GiB is comfortable")
    return Check("disk", OK, text)


def gpu() -> Check:
    """Check PyTorch and what it can train on."""
    code = (
        "import torch; c = torch.cuda.is_available(); "
        "print(torch.__version__, torch.cuda.get_device_name(0) if c else 'CPU only')"
    )
    works, text = probe(code, timeout_s=120.0)
    if not works:
        return Check(
            "PyTorch", FAIL, text, "run make setup; on an installed ROS: pip install torch in your environment"
        )
    if "CPU only" in text and shutil.which("nvidia-smi"):
        return Check("PyTorch", WARN, text, "there is an NVIDIA driver; install a CUDA build of PyTorch to train on it")
    return Check("PyTorch", OK, text)
