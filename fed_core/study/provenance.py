"""What a result was made of: the code and the data, as digests that two people can compare."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from fed_core import plugins
from fed_core.data.open import SourceConfig
from fed_core.study.scenario import StudySequence

_PACKAGES = ("fed_core", "fed_models")
_DIGITS = 16


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return 16 hexadecimal digits of the SHA-256 of our sources, as they are installed, and of all plugins."""
    hasher = hashlib.sha256()
    for package in _PACKAGES:
        spec = find_spec(package)
        for root in sorted(spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(root).rglob("*.py")):
                hasher.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    for path in plugins.files():
        hasher.update(path.name.encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()[:_DIGITS]


def data_digest(sequences: Sequence[StudySequence]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of names and sizes of all files of the sequences.

    The folder that holds them does not count, so that a copy elsewhere has the same digest. What is in the files is not
    read: data sets are large.
    """
    hasher = hashlib.sha256()
    for sequence in sequences:
        hasher.update(f"{sequence.name}\0".encode())
        for name, size in _files(sequence.source):
            hasher.update(f"{name}\0{size}\0".encode())
    return hasher.hexdigest()[:_DIGITS]


def _files(source: SourceConfig) -> Iterator[tuple[str, int]]:
    for part in source.parts:
        yield from _files(part)
    roots = [Path(source.data) / name for name in source.scenarios] if source.scenarios else [Path(source.data)]
    for root in roots if source.data else ():
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                path = Path(folder) / name
                yield path.relative_to(root.parent if source.scenarios else root).as_posix(), path.stat().st_size
