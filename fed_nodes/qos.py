"""Every quality of service that the nodes use; no other file makes a QoSProfile.

Reliable does not stop a short queue from overwriting what was not taken yet: whoever may get bursts needs depth.
"""

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

#: Cameras, depth, clouds: the newest counts. Best effort on the reading side matches every publisher.
SENSORS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=5,
    reliability=ReliabilityPolicy.BEST_EFFORT,
    durability=DurabilityPolicy.VOLATILE,
)
#: Whoever only looks on: the newest message, of any publisher.
NEWEST = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.BEST_EFFORT,
    durability=DurabilityPolicy.VOLATILE,
)
#: What a replay publishes, as the driver of a sensor does. REP 2003: drivers publish with the default of the system,
#: which fits every reader, and readers use the profile above.
DRIVERS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=10,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
#: Frames of which none may be lost (our replays). Transient local closes the gap between the moments at which writer
#: and reader know of each other; both sides must use it.
SENSORS_RELIABLE = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=20,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
#: Plans and states: whoever joins late gets the last one. Both sides must use it.
LATCHED = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
#: Readers of what many robots latch, each its own one: a burst of a whole fleet must fit.
UPDATES = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=256,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
#: What inference publishes, for any reader.
OUTPUTS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=10,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
#: ``/diagnostics``, as other publishers of that topic do.
DIAGNOSTICS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=10,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)
#: Heartbeats: reliable, but only recent ones matter.
STATUS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=64,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)


def recorded(*, reliable: bool, latched: bool, depth: int) -> QoSProfile:
    """Return the profile of a topic that is played from a bag, as its publisher offered it."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def blobs(window: int) -> QoSProfile:
    """Return the profile of both ends of a ReadBlob service with ``window`` requests under way.

    With a window above the depth requests vanish without an error, hence twice the window.
    """
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=2 * window,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.VOLATILE,
    )


#: ReadBlob with the default window of 8.
BLOBS = blobs(8)
