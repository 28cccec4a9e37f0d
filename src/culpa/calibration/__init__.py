"""Choosing the settings that find culprits best in your own data: inject faults, evaluate, choose."""

from culpa.calibration.choice import calibrate
from culpa.calibration.components import components_by_detection
from culpa.calibration.evaluation import Setting, settings
from culpa.calibration.injection import inject

__all__ = ["Setting", "calibrate", "components_by_detection", "inject", "settings"]
