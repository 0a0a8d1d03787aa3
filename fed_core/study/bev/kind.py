"""The kind of study whose clients have several cameras: folders of OPV2V's layout, recorded or rendered."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fed_core.data.open import SourceConfig
from fed_core.data.opv2v.files import SPLITS, is_generated
from fed_core.data.opv2v.sequence import DRAWN, FIRST
from fed_core.data.opv2v.source import READER
from fed_core.data.opv2v.use_cases import (
    OWN_FILE,
    BevClient,
    ClientFolders,
    find_clients,
    list_clients,
    load_use_case,
)
from fed_core.errors import ConfigError, DataError
from fed_core.study.base import Kind, OnStep, Piece, Run, Scores
from fed_core.study.bev.scoring import BevScores
from fed_core.study.config import BevSettings, StudyConfig
from fed_core.study.scenario import TEST, VALIDATION, Scenario, StudySequence

_SEEDS_PER_CLIENT = 1000


class BevKind(Kind):
    """Vehicles around vehicles."""

    def pieces(self, config: StudyConfig, seed: int, *, clients_only: bool = False) -> Sequence[Piece]:
        """Return a piece for every client, its test scenarios included."""
        return list(_rendered(config.bev, seed))

    def rendered(self, config: StudyConfig, seed: int, folder: Path) -> Scenario:
        """Return the scenario of the rendered folders."""
        found = []
        for piece in _rendered(config.bev, seed):
            (client,) = list_clients(folder / piece.name)
            found.append(replace(client, client=replace(client.client, name=piece.name, cameras=piece.client.cameras)))
        return _scenario(found, config.bev, synthetic=True)

    def recorded(self, config: StudyConfig, data: Path) -> Scenario:
        """Return the scenario of a folder.

        It is that of its own ``use_case.yaml``; else the use case of the study, where all its scenarios lie below the
        folder; else that of the folders ``{train,test}/CLIENT/SCENARIO``, all with four cameras.
        """
        clients = _clients(data, config.bev.use_case)
        generated = any(is_generated(path.name) for client in clients for path in (*client.train, *client.test))
        return _scenario(clients, config.bev, synthetic=generated)

    def scores(self, run: Run) -> Scores:
        """Return what scores a run."""
        return BevScores(run)

    def scoring(self, sequence: StudySequence, num_frames: int, config: StudyConfig) -> dict[str, Any]:
        """Return whose model is scored, and what for."""
        return {"owner": sequence.owner, "split": sequence.split}


@dataclass(frozen=True)
class _Rendered:
    """One client of a use case with streets of its own.

    Attributes:
        client: as the use case has it.
        kind: client of the generator that it is like.
        seed: of its streets and traffic.
        frames: training frames.
        settings: of the study.
    """

    client: BevClient
    kind: str
    seed: int
    frames: int
    settings: BevSettings

    @property
    def name(self) -> str:
        """Name of the client."""
        return self.client.name

    def write(self, folder: Path, on_step: OnStep) -> None:
        """Render what is not there."""
        # Imported on use: rendering needs libraries that reading does not.
        from fed_core.scenes.driving import DrivingOptions, generate

        settings = self.settings
        options = DrivingOptions(
            seed=self.seed,
            clients=(self.kind,),
            frames=self.frames,
            test_frames=settings.test_frames,
            scene_frames=settings.scene_frames,
            width=settings.width,
            height=settings.height,
            min_visible_px=settings.min_visible_px,
        )
        generate(folder / self.name, options, on_step)


def _rendered(settings: BevSettings, seed: int) -> Iterator[_Rendered]:
    """Yield the clients of the use case; those of one kind share its frames, and each has streets of its own."""
    from fed_core.scenes.driving.carriers import CLIENTS

    clients = load_use_case(settings.use_case).clients
    kinds = [_like(client, number) for number, client in enumerate(clients)]
    counts, total = Counter(kinds), sum(CLIENTS[kind].share for kind in set(kinds))
    seen: Counter[str] = Counter()
    for client, kind in zip(clients, kinds, strict=True):
        share = round(settings.frames * CLIENTS[kind].share / total / counts[kind])
        frames = max(settings.scene_frames + 1, share)  # two scenarios at least: one is held out
        yield _Rendered(client, kind, seed * _SEEDS_PER_CLIENT + seen[kind], frames, settings)
        seen[kind] += 1


def _like(client: BevClient, number: int) -> str:
    """Return the generator's client that has the vehicle; cars are of two owners in turn."""
    cars = ("car_a", "car_b")
    if client.vehicle != "car":
        return client.vehicle
    return client.name if client.name in cars else cars[number % 2]


def _clients(data: Path, use_case: str) -> Sequence[ClientFolders]:
    if (data / OWN_FILE).exists():
        return list_clients(data)
    try:
        return find_clients(data, load_use_case(use_case))
    except DataError as lacks:
        if not (data / SPLITS[0]).is_dir():
            raise
        try:
            return list_clients(data)
        except DataError as err:
            raise DataError(f"{lacks}; nor is it of another use case: {err}") from err


def _scenario(clients: Sequence[ClientFolders], settings: BevSettings, *, synthetic: bool) -> Scenario:
    train: list[StudySequence] = []
    scored: list[StudySequence] = []
    for found in clients:
        client = found.client
        kept, held = _held_out(client.name, found.train, settings.validation)
        train.append(_sequence(client, client.name, kept, settings))
        for split, folders in ((TEST, found.test), (VALIDATION, held)):
            sequence = _sequence(client, f"{client.name}_{split}", folders, _scored(settings))
            scored.append(replace(sequence, owner=client.name, split=split))
    return Scenario(tuple(train), tuple(scored), synthetic=synthetic)


def _scored(settings: BevSettings) -> BevSettings:
    """Return the settings of frames that score: where training draws a vehicle, they take the first (feddwa spec 6)."""
    if settings.reader.get("vehicle") != DRAWN:
        return settings
    return replace(settings, reader={**settings.reader, "vehicle": FIRST})


def _held_out(name: str, scenarios: Sequence[Path], share: float) -> tuple[Sequence[Path], Sequence[Path]]:
    """Return the scenarios that train and the last ones, at least one, that choose the round."""
    count = max(1, round(share * len(scenarios)))
    if count >= len(scenarios):
        text = f"client {name!r} has {len(scenarios)} training scenario(s); one is held out, so it needs at least two"
        text += "; make shorter ones with `fedperc generate bev --scene-frames`, or record more"
        raise DataError(text)
    return scenarios[:-count], scenarios[-count:]


def _sequence(client: BevClient, name: str, scenarios: Sequence[Path], settings: BevSettings) -> StudySequence:
    folders = {path.parent for path in scenarios}
    options = {"cameras": list(client.cameras), **settings.reader}
    sources = [
        SourceConfig(
            data=str(folder.absolute()),
            reader=READER,
            name=name,
            scenarios=tuple(path.name for path in scenarios if path.parent == folder),
            options=options,
        )
        for folder in sorted(folders)
    ]
    if not sources:
        raise ConfigError(f"client {client.name!r} has no scenarios for {name}")
    source = sources[0] if len(sources) == 1 else SourceConfig(parts=tuple(sources), name=name)
    return StudySequence(name, client.vehicle, settings.use_case, source)
