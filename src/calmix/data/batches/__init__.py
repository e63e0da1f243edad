"""Rows as batches: encoded, in the order of an epoch, padded.

encoding     Rows as token ids: tokenised once, packed in flat arrays
epoch_order  The order of an epoch: which rows go into which batch, a pure function of (seed, epoch)
grouped      Batches that hold rows of several groups side by side: easy and ambiguous
sampler      The sampler of training batches, and the keys that rows carry through a batch
state_cache  Hidden states of token sequences on disk: memory-mapped, computed once
unlabelled   Labelled rows with unlabelled ones behind them, as one training set
"""
