"""What a check found."""

import subprocess
import sys
from dataclasses import dataclass

OK, WARN, FAIL = "OK", "WARN", "FAIL"
COLOURS = {OK: "green", WARN: "yellow", FAIL: "bold red"}


@dataclass(frozen=True)
class Check:
    """One row of the table: ``advice`` is empty when all is well."""

    name: str
    state: str
    found: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the row as plain texts."""
        return {"check": self.name, "state": self.state, "found": self.found, "advice": self.advice}


def probe(code: str, timeout_s: float = 60.0) -> tuple[bool, str]:
    """Run Python code in a process of its own; return whether it worked and its last line of output.

    The CLI imports neither ROS nor PyTorch, and a library that crashes on import must not take the table with it.
    """
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer in {timeout_s:.0f} s"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else f"exit code {done.returncode}"
