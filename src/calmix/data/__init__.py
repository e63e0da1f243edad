"""Files and hub datasets -> rows with ids -> encoded batches.

batches/    Rows as batches: encoded, in the order of an epoch, padded
images/     Images: from files and arrays to `pixel_values`
published/  The datasets of the papers, as their authors publish them
checks      What is suspicious about the data of a run, found before training
columns     Which columns of a table are what, and the input columns with every value checked
duplicates  Rows with the same input: texts that agree but for case and blanks
embedded    Real data that come with the package index: film reviews from two places, for the demo
hub         Datasets on the Hugging Face hub, when it can be reached
input_rows  Rows to be predicted, with the other columns of their file
label_sets  Labels of rows that have several, or none: lists, separated texts, columns of 0 and 1
labels      Labels: what a file writes for a class, and the index it stands for
objects     Data that is given as objects: frames, datasets, lists
perturbation  Rows with damaged inputs and unchanged labels
reading     From a file, a directory of splits or a hub name to `Rows`
rows        Rows: a split in memory, an Arrow table whose rows keep their ids through every selection
sampling    Parts of `Rows`: stratified, so that every class keeps its share, or random
soft_labels Soft labels and weights of rows: probabilities, several annotators, numbers
sources     Where a split is read from: a data file, a directory of splits, or a dataset on the hub
splits      The splits of a run: training, validation and any number of test sets
"""
