"""Recalibrate a trained model for the data you deploy it on.

label_request  Which rows of a file to label, by the confidence of a trained model
labelled       Recalibration from a few labelled rows of the domain that a model is used on
target_passes  What a network says about rows without labels: features, and mixed rows
unlabelled     Recalibration by rows of the domain without labels: published methods
perturbed      A temperature for no domain in particular, fitted on perturbed validation rows
"""
