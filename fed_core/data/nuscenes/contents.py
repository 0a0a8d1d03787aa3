"""What is in a nuScenes folder, as rows of text."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fed_core.data.nuscenes.domains import list_scenes
from fed_core.data.nuscenes.frames import label_of

if TYPE_CHECKING:
    from nuscenes.nuscenes import NuScenes

Row = tuple[str, ...]
_NO_DOMAIN = "none of the five"
_KINDS = ("scenes", "keyframes", "boxes")


def content_table(tables: "NuScenes") -> tuple[tuple[tuple[str, str], ...], Row, tuple[Row, ...]]:
    """Return facts (name, value), and heads and rows of a table: scenes, keyframes and boxes by domain and split."""
    scenes = {scene.name: scene for scene in list_scenes(tables)}
    place_of = {}
    for record in tables.scene:
        scene = scenes[record["name"]]
        place_of[record["token"]] = (scene.domain or _NO_DOMAIN, scene.split or "neither")
    counts: Counter[tuple[tuple[str, str], str]] = Counter((place, "scenes") for place in place_of.values())
    for sample in tables.sample:
        names = (tables.get("sample_annotation", token)["category_name"] for token in sample["anns"])
        place = place_of[sample["scene_token"]]
        counts[place, "keyframes"] += 1
        counts[place, "boxes"] += sum(label_of(name) is not None for name in names)
    rows = tuple((*place, *(str(counts[place, kind]) for kind in _KINDS)) for place in sorted(set(place_of.values())))
    return tuple(_facts(tables)), ("domain", "split", *_KINDS), rows


def _facts(tables: "NuScenes") -> Iterator[tuple[str, str]]:
    keyed = [record for record in tables.sample_data if record["is_key_frame"]]
    present = sum((Path(tables.dataroot) / record["filename"]).is_file() for record in keyed)
    yield "version", str(tables.version)
    yield "sensors", ", ".join(sorted(sensor["channel"] for sensor in tables.sensor))
    yield "files of keyframes", f"{present} of {len(keyed)} are there"
    yield "scans in between", str(len(tables.sample_data) - len(keyed))
