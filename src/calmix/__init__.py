"""calmix trains classifiers whose confidence can be trusted.

The public names, each loaded when it is first used: `import calmix` itself loads neither torch nor
transformers, and the names of calibration and dynamics never do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from calmix.calibration.errors import adaptive_calibration_error as adaptive_calibration_error
    from calmix.calibration.errors import classwise_calibration_error as classwise_calibration_error
    from calmix.calibration.errors import expected_calibration_error as expected_calibration_error
    from calmix.calibration.errors import maximum_calibration_error as maximum_calibration_error
    from calmix.calibration.errors import overconfidence_error as overconfidence_error
    from calmix.calibration.evaluation import evaluate as evaluate
    from calmix.calibration.predictions import Predictions as Predictions
    from calmix.calibration.risk_coverage import area_under_risk_coverage as area_under_risk_coverage
    from calmix.calibration.scores import brier_score as brier_score
    from calmix.calibration.scores import negative_log_likelihood as negative_log_likelihood
    from calmix.calibration.selective import guaranteed_threshold as guaranteed_threshold
    from calmix.calibration.temperature import TemperatureScaling as TemperatureScaling
    from calmix.dynamics.datamap import DataMap as DataMap
    from calmix.dynamics.recorder import DynamicsRecorder as DynamicsRecorder
    from calmix.mixing.method import Method as Method
    from calmix.mixing.method import get_method as get_method
    from calmix.mixing.method import list_methods as list_methods
    from calmix.training.arguments import MixupArguments as MixupArguments
    from calmix.training.recording import RecordsDynamics as RecordsDynamics
    from calmix.training.teacher_logits import TeacherLogits as TeacherLogits
    from calmix.training.trainer import MixupTrainer as MixupTrainer
    from calmix.user_error import UserError as UserError

_HOME = {
    "MixupTrainer": "calmix.training.trainer",
    "MixupArguments": "calmix.training.arguments",
    "RecordsDynamics": "calmix.training.recording",
    "TeacherLogits": "calmix.training.teacher_logits",
    "Method": "calmix.mixing.method",
    "get_method": "calmix.mixing.method",
    "list_methods": "calmix.mixing.method",
    "DynamicsRecorder": "calmix.dynamics.recorder",
    "DataMap": "calmix.dynamics.datamap",
    "Predictions": "calmix.calibration.predictions",
    "evaluate": "calmix.calibration.evaluation",
    "TemperatureScaling": "calmix.calibration.temperature",
    "expected_calibration_error": "calmix.calibration.errors",
    "maximum_calibration_error": "calmix.calibration.errors",
    "adaptive_calibration_error": "calmix.calibration.errors",
    "classwise_calibration_error": "calmix.calibration.errors",
    "overconfidence_error": "calmix.calibration.errors",
    "negative_log_likelihood": "calmix.calibration.scores",
    "brier_score": "calmix.calibration.scores",
    "area_under_risk_coverage": "calmix.calibration.risk_coverage",
    "guaranteed_threshold": "calmix.calibration.selective",
    "UserError": "calmix.user_error",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'calmix' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
