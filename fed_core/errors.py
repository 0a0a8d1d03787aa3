"""Every error that fed_perception raises on purpose.

Messages are one line: what is wrong, where, and what to do. Programs catch :class:`FedError` at their edge
(CLI, message callbacks) and show ``str(error)``; nothing else is caught broadly.
"""

from enum import IntEnum


class Refusal(IntEnum):
    """Why an aggregator refuses a robot, a descriptor or an update; the numbers of ``fed_msgs``."""

    ACCEPTED = 0
    DUPLICATE_ROBOT = 1  # another live robot holds this id
    WRONG_TASK = 2
    WRONG_MODEL = 3  # architecture, names, shapes or dtypes differ
    WRONG_VERSION = 4  # protocol version
    NO_SAMPLES = 5
    WRONG_ENCODER = 6  # descriptor of another encoder, layer, pooling or pre-processing
    WRONG_ROUND = 7
    ALREADY_COUNTED = 8  # the same report again
    NOT_A_PARTICIPANT = 9
    NOT_FINITE = 10  # NaN or Inf
    WRONG_TENSORS = 11  # a tensor is missing, unknown, or of another shape or dtype
    TOO_LARGE = 12  # over a size or norm bound
    BROKEN_BLOB = 13  # digest or format wrong
    UNKNOWN_ROBOT = 14
    BAD_NAME = 15  # robot id is not a valid ROS name
    NOT_READY = 16  # the aggregator still builds its initial model; ask again
    QUARANTINED = 17  # set aside after refused updates; an operator can readmit it


class FedError(Exception):
    """Base of all errors with a message for people."""


class ConfigError(FedError):
    """A configuration value is unknown, of the wrong type, or out of its range."""


class UnknownNameError(ConfigError):
    """A registry has no entry of this name."""


class DataError(FedError):
    """A recording, a message or a sample cannot be used."""


class UnitsError(DataError):
    """The unit of a depth image is not known."""


class EncodingError(DataError):
    """An image encoding is not supported."""


class WireError(FedError):
    """Bytes from outside do not follow the protocol.

    Args:
        message: for people.
        code: why they are refused.
        lost: they did not come through; what the sender has may be sound.
    """

    def __init__(self, message: str, code: Refusal = Refusal.BROKEN_BLOB, *, lost: bool = False) -> None:
        super().__init__(message)
        self.code, self.lost = code, lost


class RefusedError(WireError):
    """The aggregator refuses what a robot sent; ``code`` says why."""


class StoreError(FedError):
    """The journal or the blob store cannot be read or written."""


class DiskFullError(StoreError):
    """No space is left; nothing that was saved before is lost."""


class FolderInUseError(StoreError):
    """Another process works in the folder; it may be about to end."""


class StrategyError(FedError):
    """A strategy cannot go on with what it was given."""


class StudyError(FedError):
    """A study cannot go on; what it finished is kept."""


class TrainingError(FedError):
    """Local training failed or diverged."""


class EngineError(FedError):
    """The workers of a simulation are lost or cannot start; what they finished is kept."""
