"""Small pictures that the page shows, each under the digest of its bytes, so that a browser loads it once."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fed_cli.web.snapshot import MOST_NAME, short

#: Kinds of pictures that are passed on, by how they begin: what a browser does with others is not for us to find out.
_MAGIC = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
_TITLES = {"depth": "depth", "boxes": "3D boxes", "map": "map of vehicles"}


@dataclass(frozen=True)
class Shown:
    """One picture.

    Attributes:
        title: what it shows.
        mime: "image/png" or "image/jpeg".
        data: the file's bytes.
        width: pixels; 0 = not told.
        height: pixels; 0 = not told.
        stamp_s: when it was made; None = not told.
    """

    title: str
    mime: str
    data: bytes
    width: int = 0
    height: int = 0
    stamp_s: float | None = None

    @property
    def digest(self) -> str:
        """Its name in the address."""
        return hashlib.sha256(self.data).hexdigest()[:32]

    def to_tree(self) -> dict[str, Any]:
        """Return what the page must know of it."""
        return {
            "title": self.title,
            "digest": self.digest,
            "width": self.width,
            "height": self.height,
            "stamp_s": self.stamp_s,
        }


def read_picture(line: Mapping[str, Any]) -> Shown | None:
    """Return the picture of a line of the monitor; None where it is no PNG or JPEG."""
    magic = _MAGIC.get(line.get("mime", ""))
    try:
        data = base64.b64decode(line["image"], validate=True)
    except (binascii.Error, ValueError):
        return None
    if magic is None or not data.startswith(magic):
        return None
    title = f"{line['source']}: {_TITLES.get(line['what'], line['what'])}"
    size = (int(line.get("width") or 0), int(line.get("height") or 0))
    return Shown(short(title, MOST_NAME), line["mime"], data, *size, line.get("stamp_s"))
