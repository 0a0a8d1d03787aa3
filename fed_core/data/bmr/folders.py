"""Where files lie: folders are listed once, since a data set has tens of thousands of files."""

from collections.abc import Iterable
from pathlib import Path

from fed_core.errors import DataError


class Listing:
    """Remembers which files a folder holds."""

    def __init__(self) -> None:
        self._names: dict[Path, frozenset[str]] = {}

    def names(self, folder: Path) -> frozenset[str]:
        """Return the names of a folder's entries; none where it is not there."""
        if folder not in self._names:
            found = (entry.name for entry in folder.iterdir()) if folder.is_dir() else ()
            self._names[folder] = frozenset(found)
        return self._names[folder]

    def has(self, file: Path) -> bool:
        """Tell whether a file is there."""
        return file.name in self.names(file.parent)


def require_root(root: Path, what: str) -> None:
    """Raise :class:`DataError` where the folder of a data set is missing or empty."""
    if not root.is_dir():
        raise DataError(f"{root} is no folder; give the folder of {what}")
    if not any(root.iterdir()):
        raise DataError(f"{root} is empty; give the folder of {what}")


def first_folder(candidates: Iterable[Path]) -> Path | None:
    """Return the first folder that is there."""
    return next((folder for folder in candidates if folder.is_dir()), None)
