"""Networks that transformers does not have. Each file is copied into every checkpoint.

cifar_resnet  ResNets for small images: the stem is one 3x3 convolution
text_cnn      A convolutional network for sentences: n-gram detectors over word vectors
vgg           VGG: blocks of 3x3 convolutions, each block ending in a max pooling that halves the image
"""
