"""The epochs of a run: which are evaluated, what is measured, and which one is kept.

evaluated          Which epochs are evaluated on the validation rows
kept_predictions   The predictions of every epoch on the test sets
measures           What is measured after every epoch
rules              By what the epoch of a run is kept: the rules of `--select-by`
validation_logits  The validation logits of every epoch, kept in its checkpoint
"""
