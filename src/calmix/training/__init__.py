"""`MixupTrainer`, its arguments, and every option of a run.

distillation/      Teachers, their logits, and the mixin that trains a student
label_noise/       Threshold passes: the training runs behind a list of likely mislabelled rows
pipeline/          From files to a finished run: prepare, stages, the store of runs, fingerprints
arguments          `MixupArguments`: the arguments of `transformers.Trainer`, and those that mixup adds
calibrated_checkpoint  A standard checkpoint whose plain softmax is calibrated: loaded again, proven
checkpointing      When checkpoints are written in training, and how each of them is closed
checkpoints        Checkpoints that a killed run can be continued from
configuration      `TrainConfig`: every option of a run, declared once and checked
default_settings   Learning rate and epochs where the user gives none
epoch_predictions  The predictions of every epoch on the test sets
epoch_rules        By what the epoch of a run is kept: the rules of `--select-by`
frozen_layers      `--freeze-layers`: the first layers are frozen, and their activations cached
hf_compat          What calmix relies on in the Trainer beyond its documented interface
journal            What a run writes down as it goes: sums of every epoch
lazy_embeddings    AdamW that leaves the word embeddings of absent words alone, and loses nothing by it
learning           Whether a run has learned anything: signs that it has not, and what to change
model_settings     Settings of training that suit the built-in networks, where the user says nothing else
optimization       Optimisers and schedules beside those of the Trainer
optimizer_options  What `--optimizer` and `--schedule` may say, checked without torch
options            How an option of training is declared, and what follows from it
recording          The Trainer side of the dynamics recorder: a mixin for any `transformers.Trainer`
selection          What is measured after every epoch
specification      `NAME:OPTION=VALUE:...`: how a thing with options is written in one word
trainer            `MixupTrainer`: a `transformers.Trainer` that trains with any method
trainer_files      The files of a checkpoint as the Trainer of transformers writes them
"""
