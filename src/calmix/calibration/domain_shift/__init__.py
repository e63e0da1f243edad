"""Calibration for a domain of which there are rows, but no labels: published methods.

catalogue      The methods by name, and what our results say about each
label_shift    Class shares of unlabelled rows by expectation-maximisation, as biases
pseudo_target  PseudoCal: a temperature fitted on mixed rows of the target with pseudo-labels
transferable   TransCal: a temperature at which target confidence meets an estimate of target accuracy
"""
