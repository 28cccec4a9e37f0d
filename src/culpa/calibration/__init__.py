"""Choosing the settings that find culprits most often in your own data: inject faults, evaluate, choose."""

from culpa._core.choices import FAULT_KINDS
from culpa.calibration.choice import Calibration, Plan, calibrate, choose
from culpa.calibration.evaluation import Setting, leaderboard, settings
from culpa.calibration.injection import inject

__all__ = ["FAULT_KINDS", "Calibration", "Plan", "Setting", "calibrate", "choose", "inject", "leaderboard", "settings"]
