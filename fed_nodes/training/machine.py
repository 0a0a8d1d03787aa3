"""What the machine says of itself: how hot its CPU is, and how busy others than the training process keep it."""

import math
import time
from collections.abc import Callable

import psutil

from fed_nodes.training.yielding import LoadMeter

#: Sensors of CPUs on PCs, ARM boards and Jetsons are called so, or hold it in their name.
_CPU_NAMES = ("cpu", "core", "k10temp", "zenpower", "soc")


def cpu_temperature_c() -> float:
    """Return the highest temperature of the CPU's sensors [°C]; of all sensors, where none has its name; or NaN."""
    read: Callable[[], dict[str, list[object]]] | None = getattr(psutil, "sensors_temperatures", None)
    try:
        found = read() if read is not None else {}
    except (OSError, ValueError):  # a driver that went to sleep
        return math.nan
    named = [name for name in found if any(part in name.lower() for part in _CPU_NAMES)]
    values = [float(getattr(entry, "current", None) or math.nan) for name in named or found for entry in found[name]]
    return max((value for value in values if not math.isnan(value)), default=math.nan)


class OthersLoad:
    """How busy the CPUs are with other things than one process: training starts none of its own.

    Args:
        pid: tells the process; None where there is none.
    """

    def __init__(self, pid: Callable[[], int | None]) -> None:
        self._pid, self._meter = pid, LoadMeter()

    def read(self) -> float:
        """Return the share of all CPUs over the last ten seconds [0..1]; NaN at the first call."""
        times = psutil.cpu_times()
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        # Time of guests is in user's and nice's already.
        names = ("user", "nice", "system", "irq", "softirq", "steal")
        busy_s = sum(getattr(times, name, 0.0) for name in names)
        return self._meter.add(time.monotonic(), busy_s, idle_s, self._own_s())

    def _own_s(self) -> float:
        pid = self._pid()
        try:
            times = psutil.Process(pid).cpu_times() if pid else None
        except psutil.Error:
            return 0.0
        return times.user + times.system if times else 0.0
