"""Checkpoints: to resume from, and the calibrated one to use.

calibrated     A standard checkpoint whose plain softmax is calibrated: loaded again, proven
callback       When checkpoints are written in training, and how each of them is completed
resumable      Checkpoints that a killed run can be continued from
trainer_files  The files of a checkpoint as the Trainer of transformers writes them
"""
