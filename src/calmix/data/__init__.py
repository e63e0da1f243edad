"""Files and hub datasets -> rows with ids -> encoded batches.

published/       The datasets of the papers, as their authors publish them
augmentation     Random crops, flips and rotations of training images
batches          The sampler of training batches, and the keys that rows carry through a batch
checks           What is suspicious about the data of a run, found before training
columns          Which columns of a table are what, and the input columns with every value checked
duplicates       Rows with the same input: texts that agree but for case and blanks
embedded         Real data that come with the package index: film reviews from two places, for the demo
embedded_images  Images that come with the package index: handwritten digits from two places
encoding         Rows as token ids: tokenised once, packed in flat arrays
epoch_order      The order of an epoch: which rows go into which batch, a pure function of (seed, epoch)
grouped_batches  Batches that hold rows of several groups side by side: easy and ambiguous
hub              Datasets on the Hugging Face hub, when it can be reached
image_sources    Where images come from: a folder with one folder per class, an `.npz` of arrays
images           Images as rows keep them: the bytes of an image file, or the path of one
input_rows       Rows to be predicted, with everything that stands beside them in their file
labels           Labels: what a file writes for a class, and the index it stands for
objects          Data that is given as objects: frames, datasets, lists
pixels           Rows of images as a dataset, and the collator that makes `pixel_values` of them
reading          From a file, a directory of splits or a hub name to `Rows`
rows             Rows: a split in memory, an Arrow table whose rows keep their ids through every selection
sampling         Parts of `Rows`: stratified, so that every class keeps its share, or random
sources          Where a split is read from: a data file, a directory of splits, or a dataset on the hub
splits           The splits of a run: training, validation and any number of test sets
state_cache      Hidden states of token sequences on disk: memory-mapped, computed once
unlabelled       Labelled rows with unlabelled ones behind them, as one training set
"""
