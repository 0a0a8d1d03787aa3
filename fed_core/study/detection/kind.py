"""The kind of study whose clients are driving domains: a nuScenes dataroot, recorded or rendered."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from fed_core.config import from_tree
from fed_core.data.nuscenes.domains import (
    DOMAINS,
    PUBLISHED_VERSION,
    TRAIN,
    VAL,
    check_published_counts,
    split_domains,
)
from fed_core.data.nuscenes.sequence import CAMERAS, NuScenesOptions
from fed_core.data.nuscenes.source import READER
from fed_core.data.nuscenes.tables import find_version, open_tables
from fed_core.data.open import SourceConfig
from fed_core.errors import ConfigError, DataError
from fed_core.study.base import Kind, OnStep, Piece, Run, Scores
from fed_core.study.config import DetectionSettings, StudyConfig
from fed_core.study.detection.scoring import DetectionScores
from fed_core.study.scenario import TEST, VALIDATION, Scenario, StudySequence

_log = logging.getLogger(__name__)
#: Fewest domains that a study compares.
_FEWEST = 2
#: End of the name of a version folder whose data are rendered.
_GENERATED = "generated"
_INTERVAL = "load_interval"


class DetectionKind(Kind):
    """Five driving domains."""

    def pieces(self, config: StudyConfig, seed: int, *, clients_only: bool = False) -> Sequence[Piece]:
        """Return a piece for every domain, its test scenes included; mistakes of the study file are told here."""
        # Imported on use: rendering needs libraries that reading does not.
        from fed_core.scenes.domains import DomainOptions

        generator = config.detection.generator
        if "seed" in generator:
            raise ConfigError("detection.generator: leave out 'seed'; a study numbers its own (seeds)")
        chosen = from_tree(DomainOptions, generator, "detection.generator").domains
        return [_Rendered(DOMAINS[letter], letter, seed, config.detection) for letter in chosen]

    def rendered(self, config: StudyConfig, seed: int, folder: Path) -> Scenario:
        """Return the scenario of the rendered domains, each a dataroot of its own."""
        roots = [folder / piece.name for piece in self.pieces(config, seed)]
        return scenario_of(roots, config.detection, synthetic=True)

    def recorded(self, config: StudyConfig, data: Path) -> Scenario:
        """Return the scenario of a nuScenes dataroot, of the data set or of `fedperc generate detection`."""
        version = config.detection.reader.get("version") or find_version(data)
        if version == PUBLISHED_VERSION:
            _compare_counts(data, version)
        return scenario_of([data], config.detection, synthetic=str(version).endswith(_GENERATED))

    def scores(self, run: Run) -> Scores:
        """Return what scores a run."""
        return DetectionScores(run)

    def scoring(self, sequence: StudySequence, num_frames: int, config: StudyConfig) -> dict[str, Any]:
        """Return whose domain it is, what for, and its scenes."""
        return {"owner": sequence.owner, "split": sequence.split, "scenes": len(scenes_of(sequence))}


@dataclass(frozen=True)
class _Rendered:
    """One domain of one seed.

    Attributes:
        name: of the domain.
        letter: the paper's.
        seed: of streets, traffic and weather.
        settings: of the study.
    """

    name: str
    letter: str
    seed: int
    settings: DetectionSettings

    def write(self, folder: Path, on_step: OnStep) -> None:
        """Render what is not there."""
        # Imported on use: rendering needs libraries that reading does not.
        from fed_core.scenes.domains import DomainOptions, generate

        tree = {**self.settings.generator, "domains": [self.letter], "seed": self.seed}
        generate(folder / self.name, from_tree(DomainOptions, tree, "detection.generator"), on_step)


def scenario_of(roots: Sequence[Path], settings: DetectionSettings, *, synthetic: bool) -> Scenario:
    """Return the clients and unseen sequences of nuScenes dataroots; each domain comes from the first that has it.

    A client trains on the training scenes of its domain but for the last ones, which choose settings; its test scenes
    are the validation scenes of nuScenes. A domain with one training scene trains on it and has none to choose by; one
    without training or test scenes is left out. Both are told in the log.
    """
    train: list[StudySequence] = []
    scored: list[StudySequence] = []
    for domain, (root, scenes, cameras) in _found(roots, settings).items():
        reader = {"cameras": cameras, **settings.reader}
        kept, held = held_out(domain, scenes[TRAIN], settings.validation)
        train.append(_sequence(root, domain, domain, kept, {**reader, _INTERVAL: settings.train_interval}))
        for split, names in ((TEST, scenes[VAL]), (VALIDATION, held)):
            if names:
                options = {**reader, _INTERVAL: settings.score_interval}
                sequence = _sequence(root, domain, f"{domain}_{split}", names, options)
                scored.append(replace(sequence, owner=domain, split=split))
    if len(train) < _FEWEST:
        found = ", ".join(client.name for client in train) or "none"
        raise DataError(
            f"{', '.join(map(str, roots))} has training and test scenes of too few domains to compare ({found})"
        )
    return Scenario(tuple(train), tuple(scored), synthetic=synthetic)


class _Domain(NamedTuple):
    """Where a domain is: dataroot, scenes by split, and the cameras there."""

    root: Path
    scenes: Mapping[str, list[str]]
    cameras: list[str]


def _found(roots: Sequence[Path], settings: DetectionSettings) -> dict[str, _Domain]:
    """Return the domains that have training and test scenes, in the paper's order."""
    found: dict[str, _Domain] = {}
    for root in roots:
        tables = open_tables(root, str(settings.reader.get("version", "")))
        channels = {sensor["channel"] for sensor in tables.sensor}
        cameras = [name for name in CAMERAS if name in channels]
        for domain, scenes in split_domains(tables).items():
            if domain not in found and all(scenes[split] for split in (TRAIN, VAL)):
                found[domain] = _Domain(root, scenes, cameras)
    lacking = [domain for domain in DOMAINS.values() if domain not in found]
    if lacking:
        where = ", ".join(map(str, roots))
        _log.warning("%s lacks training or test scenes of %s, left out", where, ", ".join(lacking))
    return {domain: found[domain] for domain in DOMAINS.values() if domain in found}


def _compare_counts(data: Path, version: str) -> None:
    """Tell in the log where the scenes are not those that the paper's figures are of (fedcka spec 7.1)."""
    try:
        check_published_counts(split_domains(open_tables(data, version)))
    except DataError as err:
        _log.warning("%s: %s; figures do not compare with published ones", data / version, err)


def held_out(domain: str, scenes: Sequence[str], share: float) -> tuple[Sequence[str], Sequence[str]]:
    """Return the scenes that train and the last ones, at least one where there are two, that choose settings."""
    if len(scenes) == 1:
        _log.warning(
            "%s has one training scene, %s: it trains, and none is left to choose settings by", domain, scenes[0]
        )
        return scenes, ()
    count = min(max(1, round(share * len(scenes))), len(scenes) - 1)
    return scenes[:-count], scenes[-count:]


def scenes_of(sequence: StudySequence) -> tuple[str, ...]:
    """Return the names of a sequence's scenes."""
    return tuple(sequence.source.options["scenes"])


def _sequence(root: Path, domain: str, name: str, scenes: Sequence[str], reader: Mapping[str, Any]) -> StudySequence:
    options = {**reader, "scenes": list(scenes)}
    from_tree(NuScenesOptions, options, "detection.reader")
    city, _, condition = domain.partition("_")
    source = SourceConfig(data=str(root.absolute()), reader=READER, name=name, options=options)
    return StudySequence(name, city, condition, source)
