"""Rendered stand-ins for the two depth scenarios (fedepth spec 10 and 11); what comes out of them is synthetic."""

from collections.abc import Callable, Sequence

from fed_core.data.open import GeneratedConfig, SourceConfig
from fed_core.study.config import GeneratedSettings, StudyConfig
from fed_core.study.scenario import Scenario, ScoreRule, StudySequence

INDOOR_CAP_M = 10.0
#: The cells that are populated in M3ED, with our platforms: a car never drives indoors.
HPE_CELLS = tuple(
    (platform, environment)
    for platform in ("ugv", "uav", "legged")
    for environment in ("forest", "indoor", "urban_day", "urban_night")
    if (platform, environment) != ("ugv", "indoor")
)
#: Rooms seen by two cameras and streets seen by two others; nothing in between.
BMR_CELLS = (("legged", "indoor"), ("uav", "indoor"), ("ugv", "urban_day"), ("uav", "urban_day"))
_WORLDS_PER_SEED = 1000


def hpe(config: StudyConfig, seed: int) -> Scenario:
    """Return clients and unseen sequences of all cells; indoor cells are scored at 10 m, too."""

    def rule(environment: str) -> ScoreRule:
        return ScoreRule(near_cap_m=INDOOR_CAP_M if environment == "indoor" else 0.0)

    return _scenario(HPE_CELLS, config.generated, seed, rule)


def bmr(config: StudyConfig, seed: int) -> Scenario:
    """Return an indoor and an outdoor group; each is scored at its own cap."""

    def rule(environment: str) -> ScoreRule:
        return ScoreRule(cap_m=INDOOR_CAP_M if environment == "indoor" else 80.0, d_min_m=1e-3)

    return _scenario(BMR_CELLS, config.generated, seed, rule)


def _scenario(
    cells: Sequence[tuple[str, str]], settings: GeneratedSettings, seed: int, rule: Callable[[str], ScoreRule]
) -> Scenario:
    clients: list[StudySequence] = []
    tests: list[StudySequence] = []
    world = seed * _WORLDS_PER_SEED
    for platform, environment in cells:
        for kind, count, frames in (
            ("", settings.clients_per_cell, settings.frames),
            ("unseen_", settings.tests_per_cell, settings.test_frames),
        ):
            for number in range(count):
                world += 1  # every recording is of a world of its own
                name = f"{kind}{platform}_{environment}_{number}"
                source = _source(platform, environment, world, frames, settings)
                sequence = StudySequence(name, platform, environment, source, rule(environment))
                (tests if kind else clients).append(sequence)
    return Scenario(tuple(clients), tuple(tests), synthetic=True)


def _source(platform: str, environment: str, world: int, frames: int, settings: GeneratedSettings) -> SourceConfig:
    size = {"width": settings.width, "height": settings.height}
    generated = GeneratedConfig(platform, environment, seed=world, frames=frames * settings.step, **size)
    return SourceConfig(generated=generated, step=settings.step)
