"""Events that happen to a role and effects it asks for; the driver (node, simulator, test) carries effects out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fed_core.errors import Refusal
from fed_core.roles.messages import (
    FleetPlan,
    FleetStatus,
    Registration,
    RegistrationReply,
    RobotStatus,
    SequenceDescriptor,
    UpdateReport,
)
from fed_core.types import BlobRef, Choice, Descriptor, Memory, ModelSignature

# ---- events ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tick:
    """Time passed; sent about every second."""


@dataclass(frozen=True)
class BlobReady:
    """A blob that was asked for is in the store, verified."""

    digest: str


@dataclass(frozen=True)
class BlobFailed:
    """A blob could not be read for good (its bytes were wrong, or the sender no longer has it).

    ``lost``: it did not come through, or found no room here; nobody says that the sender's bytes are wrong.
    """

    digest: str
    code: Refusal
    text: str
    lost: bool = False


@dataclass(frozen=True)
class JobFailed:
    """A job ended with an error."""

    job: str
    text: str


# aggregator
@dataclass(frozen=True)
class InitialModel:
    """The initial model is in the store."""

    blob: BlobRef
    signature: ModelSignature


@dataclass(frozen=True)
class UpdateChecked:
    """The tensors of an update were read and compared with the signature; ``code`` ACCEPTED or why not."""

    report: UpdateReport
    code: Refusal
    text: str = ""


@dataclass(frozen=True)
class LimitsChanged:
    """An operator changed how long a round waits, and for whom; fields as in ``AggregatorConfig``."""

    min_updates: int
    round_deadline_s: float
    liveness_s: float


@dataclass(frozen=True)
class Readmit:
    """An operator takes a robot back that was set aside."""

    robot_id: str


@dataclass(frozen=True)
class RoundOutcome:
    """What a strategy returned for a round (or at the start, round 0), with its tensors stored as blobs."""

    plan: FleetPlan
    memory: BlobRef
    clusters: Mapping[str, tuple[int, ...]]
    log: Mapping[str, Any]


# robot
@dataclass(frozen=True)
class SamplesReady:
    """Local samples were counted and the network's signature is known."""

    num_samples: int
    model_digest: str


@dataclass(frozen=True)
class Described:
    """The descriptor of the local samples is there."""

    descriptor: Descriptor


@dataclass(frozen=True)
class Progress:
    """Training goes on."""

    share: float
    loss: float
    samples_per_s: float


@dataclass(frozen=True)
class Trained:
    """Local training ended and its blobs are in the store."""

    report: UpdateReport


# inference
@dataclass(frozen=True)
class SequenceStarted:
    """A new sequence begins; its first frames will choose the models."""

    name: str


@dataclass(frozen=True)
class FramesReady:
    """The first frames of the running sequence, from which the models are chosen, are there."""

    name: str


@dataclass(frozen=True)
class SequenceDescribed:
    """The descriptor of the running sequence is there."""

    name: str
    descriptor: Descriptor


@dataclass(frozen=True)
class ServingLoaded:
    """The strategy's serving memory of a plan was read from the store."""

    memory: Memory


@dataclass(frozen=True)
class LoadFailed:
    """The models of a choice are in the store, but could not be put into a network; a person was told why."""

    load: "LoadModel"


# ---- effects -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Log:
    """Tell a person. ``level`` is "info", "warning" or "error"."""

    level: str
    text: str


@dataclass(frozen=True)
class FetchBlob:
    """Read a blob into the store from robot ``source`` (a robot's role reads from the aggregator: "")."""

    blob: BlobRef
    source: str


@dataclass(frozen=True)
class CancelFetch:
    """A blob that was asked for is not wanted any more; no answer is needed, though one may still come."""

    digest: str


@dataclass(frozen=True)
class PublishPlan:
    """Latch the plan."""

    plan: FleetPlan


@dataclass(frozen=True)
class PublishFleetStatus:
    """Latch the fleet's state."""

    status: FleetStatus


@dataclass(frozen=True)
class FleetChanged:
    """The fleet's state is another one; an aggregator says so whose driver asks for the state itself."""


@dataclass(frozen=True)
class ReplyRegistration:
    """Answer the registration that is being handled; accepted ones get a blob service."""

    registration: Registration
    reply: RegistrationReply


@dataclass(frozen=True)
class SaveInitialModel:
    """Keep the initial model in the journal."""

    model: InitialModel


@dataclass(frozen=True)
class SaveRobot:
    """Keep a registered robot (and its descriptor) in the journal."""

    registration: Registration
    descriptor: Descriptor | None


@dataclass(frozen=True)
class SaveQuarantine:
    """Keep in the journal why a robot is set aside; "" = it is no more."""

    robot_id: str
    text: str


@dataclass(frozen=True)
class CheckUpdate:
    """Compare the tensors of an update with the signature; answer with :class:`UpdateChecked`."""

    report: UpdateReport


@dataclass(frozen=True)
class SaveUpdate:
    """Count the update in the journal: at most once for each robot and round."""

    report: UpdateReport


@dataclass(frozen=True)
class StartAggregation:
    """Run the strategy's server half on the counted updates; answer with :class:`RoundOutcome`.

    Attributes:
        round: the round that ends; 0 = ``Strategy.begin``.
        reports: counted updates, by robot id.
        joined: robots that registered since the strategy last ran.
        alive: robots that take part in the next round.
    """

    round: int
    reports: tuple[UpdateReport, ...]
    joined: tuple[str, ...]
    alive: tuple[str, ...]


@dataclass(frozen=True)
class CommitRound:
    """Write the outcome of a round to the journal, in one transaction."""

    outcome: RoundOutcome


# robot
@dataclass(frozen=True)
class CountSamples:
    """Open the samples, build the network once for its signature; answer with :class:`SamplesReady`."""


@dataclass(frozen=True)
class Register:
    """Send the registration."""

    registration: Registration


@dataclass(frozen=True)
class Describe:
    """Compute the descriptor of the local samples; answer with :class:`Described`."""

    kind: str


@dataclass(frozen=True)
class PublishDescriptor:
    """Latch the descriptor."""

    message: SequenceDescriptor


@dataclass(frozen=True)
class StartTraining:
    """Train for a round; answer with :class:`Trained`."""

    plan: FleetPlan


@dataclass(frozen=True)
class StopTraining:
    """Stop the running job; its result is not wanted any more."""


@dataclass(frozen=True)
class PublishReport:
    """Latch the report of an update."""

    report: UpdateReport


@dataclass(frozen=True)
class SaveReport:
    """Keep the report on the robot's disk, so that a restart need not train again."""

    report: UpdateReport


@dataclass(frozen=True)
class PublishStatus:
    """Publish the heartbeat."""

    status: RobotStatus


# inference
@dataclass(frozen=True)
class DescribeSequence:
    """Compute the descriptor of the sequence's first frames; answer with :class:`SequenceDescribed`."""

    name: str
    kind: str


@dataclass(frozen=True)
class LoadServing:
    """Read the serving memory from the store; answer with :class:`ServingLoaded`."""

    blob: BlobRef


@dataclass(frozen=True)
class LoadModel:
    """Average the blobs uniformly, swap them into the network, and publish the selection; or :class:`LoadFailed`."""

    sequence: str
    plan: FleetPlan
    choice: Choice
    num_frames: int


Event: TypeAlias = object
Effect: TypeAlias = object
