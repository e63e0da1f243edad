# The public names and the modules they come from. `__init__.py` loads them by this list, when first used.
from calmix.calibration.calibrators.calibrated_predictions import (
    calibrate_predictions as calibrate_predictions,
)
from calmix.calibration.calibrators.calibrator import get_calibrator as get_calibrator
from calmix.calibration.calibrators.calibrator import load_calibrator as load_calibrator
from calmix.calibration.calibrators.isotonic import IsotonicCalibration as IsotonicCalibration
from calmix.calibration.calibrators.platt import PlattScaling as PlattScaling
from calmix.calibration.calibrators.shrunk import ShrunkScaling as ShrunkScaling
from calmix.calibration.calibrators.structured import StructuredScaling as StructuredScaling
from calmix.calibration.calibrators.temperature import TemperatureScaling as TemperatureScaling
from calmix.calibration.calibrators.vector import VectorScaling as VectorScaling
from calmix.calibration.conformal import ConformalSets as ConformalSets
from calmix.calibration.conformal import evaluate_sets as evaluate_sets
from calmix.calibration.differences import calibration_error_difference as calibration_error_difference
from calmix.calibration.differences import paired_differences as paired_differences
from calmix.calibration.files.column_mapping import ColumnMapping as ColumnMapping
from calmix.calibration.files.prediction_files import read_predictions as read_predictions
from calmix.calibration.files.prediction_files import write_predictions as write_predictions
from calmix.calibration.integrations.accumulators import BinnedCalibration as BinnedCalibration
from calmix.calibration.integrations.accumulators import ClasswiseCalibration as ClasswiseCalibration
from calmix.calibration.integrations.accumulators import PredictionMetrics as PredictionMetrics
from calmix.calibration.integrations.scorers import CalibrationScorer as CalibrationScorer
from calmix.calibration.integrations.scorers import calibration_scorers as calibration_scorers
from calmix.calibration.integrations.trainer_metrics import CalibrationMetrics as CalibrationMetrics
from calmix.calibration.metrics.agreement import matthews_correlation as matthews_correlation
from calmix.calibration.metrics.agreement import top_k_accuracy as top_k_accuracy
from calmix.calibration.metrics.binning import reliability_bins as reliability_bins
from calmix.calibration.metrics.errors import adaptive_calibration_error as adaptive_calibration_error
from calmix.calibration.metrics.errors import classwise_calibration_error as classwise_calibration_error
from calmix.calibration.metrics.errors import debiased_calibration_error as debiased_calibration_error
from calmix.calibration.metrics.errors import expected_calibration_error as expected_calibration_error
from calmix.calibration.metrics.errors import maximum_calibration_error as maximum_calibration_error
from calmix.calibration.metrics.errors import overconfidence_error as overconfidence_error
from calmix.calibration.metrics.errors import (
    root_mean_square_calibration_error as root_mean_square_calibration_error,
)
from calmix.calibration.metrics.kolmogorov import ks_calibration_test as ks_calibration_test
from calmix.calibration.metrics.notions import calibration_error as calibration_error
from calmix.calibration.metrics.ood import average_precision_in as average_precision_in
from calmix.calibration.metrics.ood import average_precision_out as average_precision_out
from calmix.calibration.metrics.ood import energy_score as energy_score
from calmix.calibration.metrics.ood import entropy_score as entropy_score
from calmix.calibration.metrics.ood import false_positive_rate as false_positive_rate
from calmix.calibration.metrics.ood import maximum_logit_score as maximum_logit_score
from calmix.calibration.metrics.ood import maximum_probability_score as maximum_probability_score
from calmix.calibration.metrics.ood import ood_auroc as ood_auroc
from calmix.calibration.metrics.ood import out_of_distribution_table as out_of_distribution_table
from calmix.calibration.metrics.risk_coverage import (
    area_under_generalised_risk_coverage as area_under_generalised_risk_coverage,
)
from calmix.calibration.metrics.risk_coverage import area_under_risk_coverage as area_under_risk_coverage
from calmix.calibration.metrics.risk_coverage import (
    excess_area_under_risk_coverage as excess_area_under_risk_coverage,
)
from calmix.calibration.metrics.risk_coverage import risk_coverage_curve as risk_coverage_curve
from calmix.calibration.metrics.scores import balanced_brier_score as balanced_brier_score
from calmix.calibration.metrics.scores import brier_decomposition as brier_decomposition
from calmix.calibration.metrics.scores import brier_score as brier_score
from calmix.calibration.metrics.scores import negative_log_likelihood as negative_log_likelihood
from calmix.calibration.metrics.selective import coverage_at_accuracy as coverage_at_accuracy
from calmix.calibration.metrics.selective import guaranteed_threshold as guaranteed_threshold
from calmix.calibration.metrics.smooth import smooth_calibration_error as smooth_calibration_error
from calmix.calibration.multi_label.label_scaling import LabelScaling as LabelScaling
from calmix.calibration.multi_label.multi_label_evaluation import evaluate_labels as evaluate_labels
from calmix.calibration.multi_label.multi_label_files import (
    read_multi_label_predictions as read_multi_label_predictions,
)
from calmix.calibration.multi_label.multi_label_files import (
    write_multi_label_predictions as write_multi_label_predictions,
)
from calmix.calibration.multi_label.multi_label_predictions import (
    MultiLabelPredictions as MultiLabelPredictions,
)
from calmix.calibration.predictions import Predictions as Predictions
from calmix.calibration.slices import evaluate_slices as evaluate_slices
from calmix.calibration.uncertainty.intervals import calibration_error_interval as calibration_error_interval
from calmix.calibration.uncertainty.noise_floor import noise_floor as noise_floor
from calmix.dynamics.datamap import DataMap as DataMap
from calmix.dynamics.importers import read_data_map as read_data_map
from calmix.dynamics.recorder import DynamicsRecorder as DynamicsRecorder
from calmix.mixing.method import Method as Method
from calmix.mixing.method import get_method as get_method
from calmix.mixing.method import list_methods as list_methods
from calmix.models.registration import register_networks as register_networks
from calmix.training.arguments import MixupArguments as MixupArguments
from calmix.training.distillation.teacher_logits import TeacherLogits as TeacherLogits
from calmix.training.label_noise.trainer_map import filtered_data_map as filtered_data_map
from calmix.training.recording import DynamicsMixin as DynamicsMixin
from calmix.training.trainer import MixupTrainer as MixupTrainer
from calmix.user_error import UserError as UserError
from calmix.workflows.adapt import AdaptationResult as AdaptationResult
from calmix.workflows.adapt import LabelRequestResult as LabelRequestResult
from calmix.workflows.adapt import adapt as adapt
from calmix.workflows.adapt import suggest_labels as suggest_labels
from calmix.workflows.calibrate import CalibrationResult as CalibrationResult
from calmix.workflows.calibrate import calibrate as calibrate
from calmix.workflows.classifier import CalibratedTextClassifier as CalibratedTextClassifier
from calmix.workflows.compare import Comparison as Comparison
from calmix.workflows.compare import compare as compare
from calmix.workflows.detect_ood import OodResult as OodResult
from calmix.workflows.detect_ood import detect_ood as detect_ood
from calmix.workflows.distill import distill as distill
from calmix.workflows.evaluate import Evaluation as Evaluation
from calmix.workflows.evaluate import evaluate as evaluate
from calmix.workflows.export import ExportResult as ExportResult
from calmix.workflows.export import export as export
from calmix.workflows.map import MapResult as MapResult
from calmix.workflows.map import map as map
from calmix.workflows.predict import PredictionResult as PredictionResult
from calmix.workflows.predict import predict as predict
from calmix.workflows.push import push as push
from calmix.workflows.reproduce import Reproduction as Reproduction
from calmix.workflows.reproduce import reproduce as reproduce
from calmix.workflows.run import Run as Run
from calmix.workflows.train import train as train

__version__: str
from calmix.data.batches.grouped import RowGroups as RowGroups
from calmix.mixing.chosen_depth import ChosenDepth as ChosenDepth
from calmix.mixing.known_rows import KnownRows as KnownRows
from calmix.mixing.losses import cross_entropy as cross_entropy
from calmix.mixing.mixing_method import RandomPairs as RandomPairs
from calmix.mixing.paired_groups import PairedGroups as PairedGroups
from calmix.mixing.paired_groups import weighted_means as weighted_means
from calmix.mixing.step import Mix as Mix
from calmix.mixing.step import MixedRows as MixedRows
from calmix.mixing.step import RowLosses as RowLosses
from calmix.mixing.step import Step as Step
from calmix.mixing.step import Watch as Watch
