"""What scikit-learn 1.2 and 1.6 or later call by other names."""

from __future__ import annotations

try:  # 1.6 and later
    from sklearn.utils.validation import _check_feature_names, validate_data
except ImportError:
    def validate_data(estimator, X, y="no_validation", **how):
        """Validate X, and y where it is given, and set or check what the estimator knows of the features."""
        return estimator._validate_data(X, y, **how)

    def _check_feature_names(estimator, X, *, reset):
        estimator._check_feature_names(X, reset=reset)


def check_feature_names(estimator, X, *, reset: bool) -> None:
    """Keep the names and the number of columns of a frame, or hold another frame against them."""
    _check_feature_names(estimator, X, reset=reset)
    if reset:
        estimator.n_features_in_ = X.shape[1]


def all_finite(allow_nan: bool) -> dict:
    """The argument of `validate_data` that refuses NaN, or only infinities."""
    import sklearn
    new = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 6)
    return {"ensure_all_finite" if new else "force_all_finite": "allow-nan" if allow_nan else True}
