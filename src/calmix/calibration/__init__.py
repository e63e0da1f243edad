"""Predictions, and everything that is measured on them or fitted to them. Arrays only: no torch.

domain_shift/  Calibration for a domain of which there are rows, but no labels
calibrators/   Post-hoc calibrators: scikit-learn estimators on logits
files/         Predictions files: which columns hold what, evaluation of files and runs, ensembles
integrations/  Metrics where people need them: scikit-learn scorers, `Trainer` metrics
multi_label/   Rows with several labels, or none: metrics, scaling and thresholds of every label
metrics/       Metrics as pure functions: binning, calibration errors, proper scores, selective prediction
uncertainty/   How far a metric can be trusted: intervals, noise floors, paired differences
accuracy_loss  How much of the accuracy that is lost out of domain confidence loses too
adaptation     Recalibration for another domain from a few labelled rows of it
label_request  Which rows to label, so that a fit on them is unbiased: random, or stratified by confidence
class_names    Classes are matched by name, however their names are spelled; never by where they stand
conformal      Prediction sets that hold the true class with a chosen probability
differences    Two models on the same rows: the difference of every metric, with its paired interval
evaluation     Everything calmix says about one set of predictions, in one pass over the rows
fit_uncertainty  What the fit of a calibrator adds to the uncertainty of metrics on other rows
held_out       What calibration brings on rows that it was not fitted on
input_checks   What the metrics accept: arrays are made float64 and refused, never repaired
predictions    Predictions that know what they are: logits or probabilities, with labels
slices         Groups of rows: every metric for each value of a column, and the worst one
weighted_evaluation  The metrics of rows with weights or soft labels
"""
