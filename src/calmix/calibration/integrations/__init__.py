"""Metrics where people need them: scikit-learn scorers, `Trainer` metrics, streaming, matplotlib.

accumulators        Binned calibration metrics and mean scores of data that come in pieces: batches, shards
figure_canvas       Colours, and what all figures have in common
reliability_figure  The reliability diagram by matplotlib
scorers             Calibration metrics as scikit-learn scorers, for `cross_validate`
streaming           Evaluate predictions that come in batches, and remember which rows they were about
trainer_metrics     Calibration metrics for `transformers.Trainer`
"""
