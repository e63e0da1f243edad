"""Mixup as small pure functions, and `methods/`: one file per method.

methods/        One file per method; `calmix.mixing.method` finds them
bank            The saliency of all training rows, as the epoch before left it
catalogue       What there is to choose from: every method's declarations
distillation    What a student learns from a teacher, beside the labels
known_rows      What is known about the training rows before a guided run
losses          Losses per row; the trainer takes their mean over the rows of an optimiser step
method          A method is a composition: one small class that answers five questions
mixing_method   What all methods that mix share: λ and mixed targets
needs           What a method must know about the training rows before its first step
padding         Padding of pairs, so that the words of two texts can be mixed position by position
paired_groups   What methods that mix rows of two groups, one with one, share
pairing         Which row meets which
partner_search  Which row of the other half each row meets: the most similar and the most dissimilar one
random_pairs    What all methods with random pairs share: partners, and pairs of texts of one length
ratio           The mixing ratio λ: how much of a row is its own
saliency        Saliency: what a row's loss says about its logits or features, in closed form
step            What a method sees of one micro-batch, and what it gives back
targets         The target of a row: one-hot, smoothed, mixed
"""
