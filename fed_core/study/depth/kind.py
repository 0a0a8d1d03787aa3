"""The kind of study whose recordings hold depth: rendered sequence by sequence, or prepared stores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fed_core.study.base import Kind, OnStep, Piece, Run, Scores
from fed_core.study.config import StudyConfig
from fed_core.study.depth.evaluation import prefix_length
from fed_core.study.depth.scoring import DepthScores
from fed_core.study.scenario import Scenario, StudySequence, from_stores, prepare, prepared


@dataclass(frozen=True)
class _Rendered:
    """One sequence that is brought into a store."""

    sequence: StudySequence

    @property
    def name(self) -> str:
        """Name of the sequence."""
        return self.sequence.name

    def write(self, folder: Path, on_step: OnStep) -> None:
        """Render it."""
        prepare(self.sequence, folder)


@dataclass(frozen=True)
class DepthKind(Kind):
    """Depth of one camera.

    Attributes:
        generate: clients and unseen sequences of a seed, to be rendered.
    """

    generate: Callable[[StudyConfig, int], Scenario]

    def pieces(self, config: StudyConfig, seed: int, *, clients_only: bool = False) -> Sequence[Piece]:
        """Return a piece for every sequence."""
        scenario = self.generate(config, seed)
        sequences = scenario.clients if clients_only else (*scenario.clients, *scenario.tests)
        return [_Rendered(sequence) for sequence in sequences]

    def rendered(self, config: StudyConfig, seed: int, folder: Path) -> Scenario:
        """Return the scenario read from the stores."""
        scenario = self.generate(config, seed)
        clients, tests = (
            tuple(prepared(sequence, folder) for sequence in group) for group in (scenario.clients, scenario.tests)
        )
        return replace(scenario, clients=clients, tests=tests)

    def recorded(self, config: StudyConfig, data: Path) -> Scenario:
        """Return the scenario of prepared stores."""
        return from_stores(data)

    def scores(self, run: Run) -> Scores:
        """Return what scores a run."""
        return DepthScores(run)

    def scoring(self, sequence: StudySequence, num_frames: int, config: StudyConfig) -> dict[str, Any]:
        """Return caps, crop and how many frames choose and are scored."""
        prefix = prefix_length(num_frames, config, sequence.name)
        return {
            "cap_m": sequence.score.cap_m,
            "near_cap_m": sequence.score.near_cap_m or None,
            "crop": sequence.score.crop,
            "descriptor_frames": prefix,
            "scored_frames": len(range(prefix, num_frames, config.score_step)),
        }
