"""The kinds of study by the name of their scenario."""

from collections.abc import Mapping

from fed_core.study.base import Kind
from fed_core.study.bev.kind import BevKind
from fed_core.study.config import StudyConfig
from fed_core.study.depth.generated import bmr, hpe
from fed_core.study.depth.kind import DepthKind
from fed_core.study.detection.kind import DetectionKind

KINDS: Mapping[str, Kind] = {
    "depth-hpe": DepthKind(hpe),
    "depth-bmr": DepthKind(bmr),
    "bev": BevKind(),
    "detection-domains": DetectionKind(),
}


def kind_of(config: StudyConfig) -> Kind:
    """Return the kind of a study."""
    return KINDS[config.scenario]
