"""Which settings find the culprits most often in your own data: inject faults, evaluate, choose."""

from culpa.calibration.choice import Calibration, calibrate
from culpa.calibration.evaluation import Setting, leaderboard, settings
from culpa.calibration.injection import FAULT_KINDS, inject

__all__ = ["FAULT_KINDS", "Calibration", "Setting", "calibrate", "inject", "leaderboard", "settings"]
