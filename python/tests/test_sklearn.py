"""What scikit-learn asks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from moe_regression import MoERegressor


@parametrize_with_checks([MoERegressor()])
def test_check_estimator(estimator, check):
    check(estimator)
