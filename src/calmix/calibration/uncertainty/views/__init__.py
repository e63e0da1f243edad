"""One set of predictions, prepared for all metrics of one kind.

binary   All calibration errors of one notion: confidences, and whether each prediction was correct
classes  The errors of all classes together
labels   Metrics of predicted and true classes with their intervals
"""
