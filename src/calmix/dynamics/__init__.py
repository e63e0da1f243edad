"""What training says about each row: record it, map it, find the labels that are probably wrong.

    recorder            DynamicsRecorder: `record(ids, logits, labels)` from any training loop
    training_dynamics   TrainingDynamics: gold probability and margin of every row in every epoch
    datamap             DataMap: confidence, variability, correctness, forgetting, AUM
    regions             easy, ambiguous and hard rows; the split at the median AUM
    label_noise         threshold samples and the filter that flags likely wrong labels
    dynamics_file       `dynamics.parquet` and `datamap.parquet`
    importers           read any of these, cartography's jsonl folder and aum's csv
    cleanlab_export     the issues found, in cleanlab's columns
    map_summary         a data map in a few numbers
    suspects            the rows whose label is probably wrong

Arrays only: no torch, no transformers.
"""
