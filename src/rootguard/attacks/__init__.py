"""What an adversary makes of releases. It sees what was released and nothing else."""

from rootguard.attacks.map import Observation, map_estimate

__all__ = ["Observation", "map_estimate"]
