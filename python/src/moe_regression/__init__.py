"""Mixtures of regressions with a gate, by the command `moe`."""

from ._command import CommandError, CommandNotFoundError
from ._function import CurveWarning, TabulatedFunction, tabulate, validate_activation
from ._model import Model
from ._regressor import FitWarning, ModelSuspectWarning, MoERegressor, OptimumNotPassedWarning, TinyTableWarning
from ._results import Comparison, Result, Summary, compare

__version__ = "0.1.0"

__all__ = ["CommandError", "CommandNotFoundError", "Comparison", "CurveWarning", "FitWarning", "Model", "ModelSuspectWarning",
           "MoERegressor", "OptimumNotPassedWarning", "Result", "Summary", "TabulatedFunction", "TinyTableWarning", "compare", "tabulate",
           "validate_activation"]
