"""What an adversary makes of releases. It sees what crossed the boundary and nothing else."""

from rootguard.attacks.reconstruction import Observation, map_estimate

__all__ = ["Observation", "map_estimate"]
