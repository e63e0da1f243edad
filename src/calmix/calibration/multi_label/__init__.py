"""Rows with several labels, or none: each label is a yes or no of its own.

average_precision         The area under the precision-recall curve of one label
label_scaling             A scale and a bias for every label, fitted on held-out rows
label_thresholds          From which probability on a label is predicted
multi_label_evaluation    Every metric per label, and over all labels
multi_label_files         Predictions files with several labels per row
multi_label_predictions   Logits or probabilities of every label, with the labels of every row
multi_label_sources       Multi-label files and runs side by side
one_label                 One label as a problem of two classes: its scores and ECE, with intervals
"""
