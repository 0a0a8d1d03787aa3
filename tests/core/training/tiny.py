"""The tiny depth network of :mod:`fed_core.testing`, under the name that the tests use."""

from fed_core.testing.network import (
    Output,
    TinyDepth,
    build,
    frames,
    load_arrays,
    signature,
    state_arrays,
    tiny,
    toolbox,
    write_folder,
)

__all__ = [
    "Output",
    "TinyDepth",
    "build",
    "frames",
    "load_arrays",
    "signature",
    "state_arrays",
    "tiny",
    "toolbox",
    "write_folder",
]
