"""Predictions files: which columns hold what, evaluation of files and runs, ensembles.

column_mapping         What a user says about the columns of a predictions file
ensemble               Ensembles: the mean of what several models say about the same rows
file_evaluation        Evaluate predictions files and runs side by side
prediction_columns     The columns of a predictions file as arrays: scores, labels and row ids
prediction_files       Prediction files: parquet, csv, tsv, jsonl, json and npz, each also gzipped
prediction_layout      What the columns of a predictions file are: by their names, or as the user says
rounded_probabilities  Probabilities that were rounded when they were written: how many digits they have
row_weights            Weights and soft labels in a predictions file: a column of numbers, and one of lists
run_predictions        The stored predictions of a run, uncalibrated or calibrated
"""
