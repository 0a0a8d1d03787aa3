"""Folder layouts, one file each; every file registers its reader in :data:`readers`."""

from fed_core.data.readers.base import FolderReader, readers

__all__ = ["FolderReader", "readers"]
