"""Calibrated release: what a service should receive, given the noised roots and public knowledge.

At strong privacy a noised value is a poor guess of the true one, and a population's figures say a
lot. After the one draw, `release` computes values that are on average nearer to the truth, from
the noised roots, the mechanism's exact distribution, the template's population (`priors`) and its
target. It never sees a private value: it is post-processing, so it costs nothing and an adversary
can undo at most what it does, not the draw. `planning` splits a budget for such releases.
"""

from rootguard.calibration.planning import make_plan
from rootguard.calibration.release import Calibration, Level

__all__ = ["Calibration", "Level", "make_plan"]
