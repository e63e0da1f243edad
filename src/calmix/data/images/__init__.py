"""Images: from files and arrays to `pixel_values`.

augmentation  Random crops, flips and rotations of training images
corruption    The usual corruptions of images, at three strengths
embedded      Images that come with the package index: handwritten digits from two places
pixels        Rows of images as a dataset, and the collator that makes `pixel_values` of them
sources       Where images come from: a folder with one folder per class, an `.npz` of arrays
stored        Images as rows keep them: the bytes of an image file, or the path of one
"""
