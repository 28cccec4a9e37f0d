"""The same jobs on Spark, for more rows than one machine holds: fit, calibrate, score, explain, incidents, fleets.

Tables are Spark DataFrames, of classic Spark or of Spark Connect. Answers are Spark DataFrames, too, with a declared schema.
culpa must be installed where the executors run. Detectors travel to them as model files, and each Python process reads a
model file once.

>>> import culpa.spark
>>> sorted(culpa.spark.__all__)
['calibrate', 'explain', 'fit', 'fit_many', 'incidents', 'score', 'score_many']
"""

from culpa.spark.answers import explain, score
from culpa.spark.fits import calibrate, fit
from culpa.spark.machines import fit_many, incidents, score_many

__all__ = ["calibrate", "explain", "fit", "fit_many", "incidents", "score", "score_many"]
