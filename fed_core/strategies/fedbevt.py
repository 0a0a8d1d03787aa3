"""FedBEVT's CaP: FedAvg in which every robot keeps its camera embeddings (Song et al. 2023, arXiv:2304.01534).

The layers that embed where a robot's cameras are (``W_cam`` and ``W_img`` of every level) are as private as the rig
itself; everything else is averaged by samples (feddwa spec 8). The network names them by ``camera_modules()``, and by
``bev_modules()`` the embedding of the map (``W_bev``), which may be private, too. All robots start from the same
private values, and none of them is ever sent. AMCM, the masks of missing cameras, is a matter of the samples.
"""

from dataclasses import dataclass
from typing import ClassVar

from fed_core.config import check, option
from fed_core.strategies.base import strategies
from fed_core.strategies.personal import PersonalParts


@strategies.register("fedbevt")
@dataclass(frozen=True)
class FedBEVT(PersonalParts):
    """Key "global" holds the shared tensors after the first round."""

    paper: ClassVar[str] = "Song et al. 2023, arXiv:2304.01534"

    cap_include_bev: bool = option(False, help="keep the embedding of the map private, too")

    def __post_init__(self) -> None:
        check(self)

    def private_parts(self) -> tuple[str, ...]:
        """Return the names of the parts that stay on the robots."""
        return ("camera", "bev") if self.cap_include_bev else ("camera",)
