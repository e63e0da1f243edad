"""`MixupTrainer`, its arguments, and every option of a run.

checkpoints/       Checkpoints: to resume from, and the calibrated one to use
distillation/      Teachers, their logits, and the mixin that trains a student
epochs/            Which epochs are evaluated, what is measured, and which one is kept
label_noise/       Threshold passes: the training runs behind a list of likely mislabelled rows
optimization/      Optimisers and schedules beside those of the Trainer
pipeline/          From files to a finished run: prepare, stages, the store of runs, fingerprints
targets/           Class weights and balanced sampling, and the correction of the prior
arguments          `MixupArguments`: the arguments of `transformers.Trainer`, and those that mixup adds
configuration      `TrainConfig`: every option of a run, declared once
default_settings   Learning rate and epochs where the user gives none
fast_layers        Layers that cost less in training: the last one shortened, all in bfloat16
forward            One forward pass of a training step: rows mixed at a depth or unmixed
frozen_layers      `--freeze-layers`: the first layers are frozen, and their activations cached
hf_compat          What calmix relies on in the Trainer beyond its documented interface
journal            The record of a run in progress: sums of every epoch
learning           Whether a run has learned anything: signs that it has not, and what to change
model_settings     Settings of training that suit the built-in networks, where the user gives none
option_checks      Checks between options: what needs another one, and what does not go with it
options            How an option of training is declared, and what follows from it
recording          The Trainer side of the dynamics recorder: a mixin for any `transformers.Trainer`
specification      `NAME:OPTION=VALUE:...`: how a thing with options is written in one word
trainer            `MixupTrainer`: a `transformers.Trainer` that trains with any method
"""
