"""What must be said before any figure: how small the study is beside the paper's."""

from fed_core.study.report.detection.figures import branch, clients_of
from fed_core.study.report.results import Study, number

#: The paper's: parameters [M], rounds, training scenes.
_PAPER = (32.7, 40, 700)


def size_sentence(study: Study, model: str) -> str:
    """Return a sentence on network, rounds and frames beside the paper's; of rendered data that they are so, too."""
    sizes = [size for key, cell in study.cells.items() if key[0] == model and (size := cell.figure("parameters"))]
    frames = [value for c in study.plan.get("clients") or [] if (value := number(c.get("frames"))) is not None]
    network = f"{model} has {sizes[0] / 1e6:.2g} M parameters" if sizes else model
    told = (
        f"{network} and is trained for {_rounds(study, model)} rounds on {sum(frames):g} frames of "
        f"{len(clients_of(study))} clients; the paper's network has {_PAPER[0]:g} M and is trained for {_PAPER[1]} "
        f"rounds on {_PAPER[2]} scenes of nuScenes (every second of some 40 keyframes each)."
    )
    if not study.plan.get("synthetic"):
        return told
    return (
        f"SYNTHETIC DATA, TINY NETWORK. {told} Streets, cameras and LiDAR are rendered. These figures say how the "
        "methods compare here; they are no figures on nuScenes and must not be put beside the paper's."
    )


def _rounds(study: Study, model: str) -> int:
    options = branch(study.plan.get("options"), "models", model)
    return int(number(options.get("rounds")) or study.rounds)
