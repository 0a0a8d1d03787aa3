"""What a training step does where memory runs out: the same samples in smaller parts. Imports no PyTorch."""

from collections.abc import Sequence

#: Fewest samples of a part: batch normalisation needs two.
SMALLEST_PART = 2

#: What PyTorch and its libraries say; only some of it has an exception of its own.
_SIGNS = (
    "outofmemory",  # torch.OutOfMemoryError
    "out of memory",  # CUDA itself
    "can't allocate memory",  # PyTorch's allocator on the CPU
    "bad_alloc",  # C++
    "alloc_failed",  # cuBLAS
)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that memory ran out, on the GPU or the CPU."""
    text = f"{type(error).__name__}: {error}".lower()
    return isinstance(error, MemoryError) or any(sign in text for sign in _SIGNS)


def in_parts(samples: Sequence[int], most: int) -> list[list[int]]:
    """Return samples in their order, in as few parts as hold at most ``most`` each; sizes differ by one at most.

    A part is never smaller than :data:`SMALLEST_PART`, but where all samples are fewer; so a part of an odd number of
    samples may hold one more than ``most``.
    """
    count = max(1, min(-(-len(samples) // most), len(samples) // SMALLEST_PART))
    ends = [len(samples) * place // count for place in range(count + 1)]
    return [list(samples[low:high]) for low, high in zip(ends, ends[1:], strict=False)]
