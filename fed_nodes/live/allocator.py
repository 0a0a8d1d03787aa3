"""How glibc keeps the memory of a node that predicts; with another C library nothing is changed.

Tensors and messages of a megabyte come and go with every frame. By itself glibc maps such memory anew each time, or
gives the end of its heap back after each, and the kernel must clear and map every page again; beside a small network
that takes longer than all else that the node does.
"""

import ctypes

# Numbers of glibc's malloc.h. The threshold is the largest that it takes.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_BYTES, _TRIM_BYTES = 32 * 2**20, 256 * 2**20


def keep_freed_memory() -> None:
    """Reuse what was freed instead of giving it to the system and taking it back, for the whole process."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)


def give_back_memory() -> None:
    """Give what was freed to the system: of networks that came and went, round after round, much would stay."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
