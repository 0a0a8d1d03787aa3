"""A whole federation without ROS: roles in one process, the robots' work here or on workers."""

from fed_core.simulation.driver import Simulation, SimulationView

__all__ = ["Simulation", "SimulationView"]
