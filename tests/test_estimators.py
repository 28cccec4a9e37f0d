"""scikit-learn's own conformance suites."""

import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from culpa import PPCA, MixturePPCA, PCADetector, StudentPPCA

# These two demand that some rows of three round blobs are flagged. The default limit is a control limit: it says how
# large the error of a normal row may be, and no row of those blobs exceeds it. With limit="empirical" they pass.
EXPECTED_FAILURES = {
    "check_outliers_train": "the theoretical 99% limit flags none of the check's training rows",
    "check_outliers_fit_predict": "the theoretical 99% limit flags none of the check's training rows",
}

FULLY_CONFORMING = [
    PPCA(),
    PPCA(method="em", tol=1e-4),
    MixturePPCA(),
    StudentPPCA(tol=1e-4),
    PCADetector(limit="empirical"),
    PCADetector(limit="empirical", model="student"),
    PCADetector(limit="empirical", model="copula"),
    PCADetector(limit="empirical", statistic="t2"),
    PCADetector(limit="conformal", holdout=0.5, confidence=0.8),
    PCADetector(limit="empirical", trim=0.05),
]


def expected_failures(estimator):
    return EXPECTED_FAILURES if isinstance(estimator, PCADetector) and estimator.limit == "auto" else {}


@parametrize_with_checks([*FULLY_CONFORMING, PCADetector()], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", FULLY_CONFORMING)
def test_check_estimator(estimator):
    for result in check_estimator(estimator, on_skip=None):
        assert result["status"] in ("passed", "skipped"), result
