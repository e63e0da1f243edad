"""Calibration for a domain of which there are rows, but no labels: published methods.

catalogue      The methods by name, and what our results say about each
density        A temperature that rises with the distance to the training rows
label_shift    Class shares of unlabelled rows by expectation-maximisation, as biases
lascal         LaSCal: the temperature with the least calibration error on the target, by source labels
pseudo_target  PseudoCal: a temperature fitted on mixed rows of the target with pseudo-labels
transferable   TransCal: a temperature at which target confidence meets an estimate of target accuracy
"""
