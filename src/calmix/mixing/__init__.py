"""Mixup as small pure functions, and `methods/`: one file per method.

methods/        One file per method; `calmix.mixing.method` finds them
bank            The saliency of all training rows, as the epoch before left it
catalogue       What there is to choose from: every method's declarations
chosen_depth    Where rows meet, as an option of a method: at the head, at the inputs or at a layer
distillation    What a student learns from a teacher, beside the labels
known_rows      What is known about the training rows before a guided run
losses          Losses per row; the trainer takes their mean over the rows of an optimiser step
method          A method is a composition: one small class that answers five questions
mixing_method   What methods that mix share: λ, mixed targets, texts padded to one length, random pairs
needs           What a method must know about the training rows before its first step
padding         Padding of pairs, so that the words of two texts can be mixed position by position
paired_groups   What methods that mix rows of two groups, one with one, share
pairing         Which row is mixed with which, and the mixing ratio λ
partner_search  Which row of the other half each row meets: the most similar and the most dissimilar one
saliency        Saliency: what a row's loss says about its logits or features, in closed form
step            What a method sees of one micro-batch, and what it gives back
target_mass     The targets of training rows that carry weights: a mass for every class
targets         The target of a row: one-hot, smoothed, mixed
"""
