"""From files to a finished run: prepare, stages, the store of runs, fingerprints, finalise.

calibrating       The calibrator that is fitted at the end of a run, and what every split is with it
dry_run           A look ahead at the last stage of a run, before the stages that come first are trained
final_logits      The logits of the finished network for every split
finalise          What training leaves: predictions, calibrator, metrics
finalise_labels   What training on rows of several labels leaves: scaling and thresholds of every label
fingerprint       The name of a run in the store: a hash of everything that decides its result
first_look        Errors of a command that are found before torch is loaded: seconds earlier
first_stage       The plain run that comes before a guided one
guidance          What a guided run knows of its rows: the data map of the plain run
output_directory  Where a run may be written; needs no torch, so that a wrong place is refused at once
prepared          What training needs, read and checked
recipe            From labelled files to a run directory: read, check, train, choose the epoch, calibrate
run_files         A run directory while it is written: who may write, and what may be removed from it
run_store         The store of runs: DIR/<fingerprint>/ is a run directory, made once and found ever after
settling          Learning rate and epochs of a run, settled before it is trained: as given, as saved
stages            A run with what must come before it: plain run, selection of rows, guided run; teacher
trackers          `--report-to`: what a run tells TensorBoard, Weights & Biases, MLflow and Trackio
"""
