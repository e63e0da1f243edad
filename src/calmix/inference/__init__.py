"""Everything that only runs a trained network: predict, MC dropout, OOD scores, calibrate a checkpoint.

adaptation/           Recalibrate a trained model for the data you deploy it on
acceptance            Which predictions may be accepted: the decision of `calmix predict` for every row
answers               The table that `calmix predict` writes: the input as it was
calibrated_directory  The directory of a calibrated model, written whole or not at all
fold_proof            The proof that a saved checkpoint holds what was folded into it: it is loaded again
forward_passes        Encoded rows through a network, batch by batch, on a device
label_calibration     Calibrate a run, a checkpoint or predictions of several labels
mc_dropout            Dropout at test time: the mean prediction of several passes with dropout on
network_sources       What networks say about labelled rows, as sources to evaluate: checkpoints
noise                 Rows that are nothing but Gaussian noise
onnx/                 A calibrated network as an ONNX file, for ONNX Runtime
ood_threshold         A threshold on a score below which a row counts as out of domain
out_of_distribution   How well a run's confidence tells data like its training data from other data
post_hoc              Calibrate what is already trained: a run, a predictions file or a checkpoint
predicting            `calmix predict` as a function
prediction            Logits for rows, from a trainer or a saved checkpoint
prediction_sets       Prediction sets of `calmix predict --coverage`: which classes a row may have
run_rows              The rows behind the stored predictions of a run, read again from its files
saved_classifier      A trained classifier on disk: a run, a checkpoint
"""
