"""Optimisers and schedules beside those of the Trainer.

lazy_embeddings  AdamW that skips the embeddings of absent words, with the same result
mixin            `OptimizerMixin`: the optimisers and schedules of papers on image networks and text CNNs
options          The values of `--optimizer` and `--schedule`, checked without torch
"""
