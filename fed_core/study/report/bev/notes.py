"""What the figures of the rounds say in words and a small table: how hard DALoss pulls, and what was left out."""

from collections import Counter

from fed_core.study.report.bev.figures import clients_of, constant, headline, robot_curve
from fed_core.study.report.bev.methods import federated, name_of, references
from fed_core.study.report.document import Entry, Table
from fed_core.study.report.results import Study
from fed_core.study.report.statistics import paired, spread

#: Below this share of the loss, or of its gradient, the pull is as good as absent (feddwa spec 3).
INERT = 1e-3
#: Above this share the floor is said to be most of the divergence.
MOSTLY = 0.5


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


def blind_sentence(study: Study, model: str) -> str:
    """Return a sentence on the methods that are no better than a map without any image, and where; "" without any."""
    levels = {client: constant(study, model, client) for client in clients_of(study)}
    found: dict[str, list[str]] = {}
    for label in (*federated(study, model), *references(study, model)):
        for client, level in levels.items():
            above = paired(study.values(model, label, headline(client)), level)
            if above and spread(list(above.values())).mean <= 0.0:
                found.setdefault(label, []).append(client)
    texts = [f"{name_of(label)} ({', '.join(clients)})" for label, clients in found.items()]
    return f"On average no better than the constant map, which looks at no image: {'; '.join(texts)}." if texts else ""


def floor_sentence(study: Study, model: str) -> str:
    """Return a sentence on methods whose KL divergence is mostly there between equal weights; "" without any."""
    shares = {label: _floor_share(study, model, label) for label in study.finished(model)}
    names = [f"{name_of(label)} ({share:.0%})" for label, share in shares.items() if share and share > MOSTLY]
    if not names:
        return ""
    return (
        f"Most of the KL divergence of the steps is a floor with {'; '.join(names)}: that share of it is there before "
        "the first step of a round, between equal weights, since a model in training (batch statistics, dropout) "
        "predicts otherwise than the same model at rest. So much less do the pull of DALoss, and T where it is the "
        "running mean of the steps, say about drift."
    )


def _floor_share(study: Study, model: str, label: str) -> float | None:
    """Return floor / divergence of the steps over all robots and seeds in the second half of the rounds."""
    sums = {"divergence_floor": 0.0, "step_divergence": 0.0}
    for cell in study.of(model, label):
        for robot in clients_of(study):
            curves = {name: dict(robot_curve(cell, name, robot)) for name in sums}
            both = sorted(curves["divergence_floor"].keys() & curves["step_divergence"].keys())
            for turn in both[len(both) // 2 :]:
                for name in sums:
                    sums[name] += curves[name][turn]
    return sums["divergence_floor"] / sums["step_divergence"] if sums["step_divergence"] > 0 else None


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
