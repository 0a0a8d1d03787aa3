"""Memory of a node that predicts: what was freed is used again, and goes back to the system when asked to."""

import subprocess
import sys

import pytest

# Allocates and frees as one frame after the other does; minor faults are pages that the kernel had to map.
CHILD = """
import resource, sys
from fed_nodes.live.allocator import give_back_memory, keep_freed_memory

def faults(frames):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(frames):
        kept = [b"x" * 3_000_000 for _ in range(4)]
        del kept
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if "keep" in sys.argv:
    keep_freed_memory()
faults(3)
print(faults(20))
give_back_memory()
print(faults(1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_the_memory_of_one_frame_is_that_of_the_next_until_it_is_given_back() -> None:
    def run(*arguments: str) -> list[int]:
        found = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=True)
        return [int(line) for line in found.stdout.split()]

    plain, kept = run(), run("keep")

    assert plain[0] > 20 * 200, "glibc alone maps each frame's memory anew"
    assert kept[0] < 100
    assert kept[1] > 500, "what was given back must be mapped again"
