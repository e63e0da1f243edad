"""One file per method; `calmix.mixing.method` finds them.

aum_saliency     Mixup between easy and hard rows, paired by what the model finds salient
cls_mixup        Mixup of the sentence features, right before the last layer
erl              Entropy-regularised loss: confident predictions cost something
features_only    Mixed inputs with a hard label: the control experiment of mixup
focal            Focal loss: rows that are already right count for little
informed_mixup   Informed mixup: easy rows meet ambiguous ones, and all rows are trained on
input_mixup      Mixup of the word embeddings (of the pixels, for images)
kernel_warping   Mixup whose λ depends on how similar the two rows are
manifold_mixup   Mixup at a depth that is drawn for every step
on_off_manifold  Rows pushed a little along the data manifold, and a little off it
plain            Plain fine-tuning: no mixing, hard or smoothed targets
rankmixup        RankMixup: a mixed row has no more confidence than the rows it is made of
regmixup         Mixup as a regulariser: the rows themselves are trained on too
tdmixup          TDMixUp: easy rows meet ambiguous ones
"""
