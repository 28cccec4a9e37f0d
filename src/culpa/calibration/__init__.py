"""Choosing the settings that find culprits best in your own data: inject faults, evaluate, choose."""

from culpa._core.choices import FAULT_KINDS, LASTING_FAULT_KINDS
from culpa.calibration.choice import RULE, Calibration, calibrate, choose
from culpa.calibration.comparison import leaderboard
from culpa.calibration.components import ComponentsByDetection, components_by_detection
from culpa.calibration.evaluation import Setting, settings
from culpa.calibration.injection import inject
from culpa.calibration.plan import Plan

__all__ = [
    "FAULT_KINDS",
    "LASTING_FAULT_KINDS",
    "RULE",
    "Calibration",
    "ComponentsByDetection",
    "Plan",
    "Setting",
    "calibrate",
    "choose",
    "components_by_detection",
    "inject",
    "leaderboard",
    "settings",
]
