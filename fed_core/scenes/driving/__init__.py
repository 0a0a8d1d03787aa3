"""Made-up traffic seen by the cameras of buses, trucks and cars, written as OPV2V folders.

A stand-in for recordings that cannot be had: synthetic, and never to be compared with figures on OPV2V.
"""

from fed_core.scenes.driving.dataset import DrivingOptions, generate

__all__ = ["DrivingOptions", "generate"]
