"""The Python API: one function per verb of the command line, with objects as well as files.

adapt           Recalibrate a trained model for the data you deploy it on
calibrate       Calibrate what is already trained: a run, a checkpoint or predictions; with a report
classifier      `CalibratedTextClassifier`: texts in, calibrated probabilities out, for scikit-learn
compare         Which method is best on these data: many runs, paired statistics, a recommendation
data_arguments  The data arguments of a workflow: names stay names, objects are held in memory
detect_ood      Does a model know what it does not know: in-domain against other data, by its scores
distill         Train a small student on the labels and a teacher's predictions
evaluate        How well calibrated are predictions: those one has, those of a run, or of a model
export          The model of a run for ONNX Runtime, with what exporting did to its calibration
map             Which training rows are easy, ambiguous, probably mislabelled
multi_label     Evaluation of rows with several labels, or none
options         The options of training as Python arguments
predict         Labels with a confidence that can be acted on: which predictions may be accepted
push            Share a run, or the recommended run of a comparison, on the Hugging Face Hub
reproduce       A table or figure of the papers, with a verdict on every claim
result          What the results of workflows have in common: they print tables and lines
run             A finished run as an object: its metrics, predictions, model and files
slices          The slices of an evaluation: a column of the predictions file
train           From labelled rows to a calibrated classifier, with its report and model card
"""
