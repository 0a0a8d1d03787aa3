"""What the figures of the rounds say in words and a small table: how hard DALoss pulls, and what was left out."""

from collections import Counter

from fed_core.study.report.bev.figures import clients_of, robot_curve
from fed_core.study.report.bev.methods import name_of
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.results import Study

#: Below this share of the loss, or of its gradient, the pull is as good as absent (feddwa spec 3).
INERT = 1e-3


def pulls(study: Study, model: str) -> Table:
    """Return, of each method with DALoss, how large its pull Q ever gets against the task's loss S."""
    found = {label: _shares(study, model, label) for label in study.finished(model)}
    rows = [
        (Entry(name_of(label)), *(Entry("–" if value is None else f"{value:.1e}") for value in shares))
        for label, shares in found.items()
        if any(value is not None for value in shares)
    ]
    return Table(
        f"{model}: how hard DALoss pulls",
        ("Method", "Largest Q / S", "Largest ‖∇Q‖ / ‖∇S‖"),
        tuple(rows),
        "Largest of all robots, rounds and seeds; Q is the pull, S the loss of the task.",
    )


def inert_sentence(study: Study, model: str) -> str:
    """Return a sentence on the methods whose pull is never felt; "" without any."""
    found = {label: [v for v in _shares(study, model, label) if v is not None] for label in study.finished(model)}
    names = [name_of(label) for label, shares in found.items() if shares and max(shares) < INERT]
    if not names:
        return ""
    return (
        f"DALoss is nearly inert with {'; '.join(names)}: for every robot, round and seed Q stays below {INERT:g} of "
        "the loss, and its gradient below that share of the loss's, so at this C it hardly changes what is learned."
    )


def _shares(study: Study, model: str, label: str) -> list[float | None]:
    return [_largest(study, model, label, name) for name in ("q_over_s", "q_gradient_share")]


def dropped_sentences(study: Study, model: str) -> list[str]:
    """Return a sentence for each method that lost updates, with the reasons."""
    found = []
    for label in study.finished(model):
        rows = [row.get("dropped") or {} for cell in study.of(model, label) for row in cell.rounds]
        reasons = Counter(f"{robot}: {reason}" for row in rows for robot, reason in row.items())
        if reasons:
            texts = "; ".join(f"{reason} ({count} times)" for reason, count in reasons.items())
            found.append(f"{name_of(label)}: {sum(reasons.values())} updates were left out, {texts}.")
    return found


def _largest(study: Study, model: str, label: str, name: str) -> float | None:
    robots = clients_of(study)
    curves = [robot_curve(cell, name, robot) for cell in study.of(model, label) for robot in robots]
    return max((value for curve in curves for _, value in curve), default=None)
