"""Threshold passes: the training runs behind a list of likely mislabelled rows.

mapped_rows       The training rows behind a data map, found again in the file they came from
threshold_passes  The training passes behind a list of likely mislabelled rows
trainer_map       The data map of a plain `MixupTrainer`, with a filter of doubtful labels
"""
