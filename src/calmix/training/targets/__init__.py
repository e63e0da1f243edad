"""What training rows ask the network to predict.

class_weights       weights of classes, balanced sampling, and the shift of the logits that they cause
prior_correction    that shift, taken out of the head
mixin               the Trainer side
"""
