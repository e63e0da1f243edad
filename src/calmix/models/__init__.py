"""Load a network, find its mix points, fold a calibrator into its head; `networks/`: our own networks.

networks/          Networks that transformers does not have, each in one file of its own
built_in           The networks that `--model` knows by name
cached_states      Tokenised rows that bring the cached states of their sequences along
cutting            A smaller network out of a larger one: the same checkpoint with fewer layers
folding            Fold a calibrator into the last linear layer
frozen_prefix      The first layers of an encoder, frozen: their output is a fixed function of a text
head_dropout       Dropout before the last layer of transformers' ResNet, which has none of its own
hf_compat          What calmix relies on in networks beyond the documented interface of transformers and torch
inputs             How rows become what a network takes: a tokenizer for texts
layer_precision    The layers of an encoder in bfloat16 while they are trained
linear_head        One linear layer on [CLS] in place of the head of BERT and its kin
loading            Load a classifier by a built-in name, a directory or a hub name
lora               LoRA: train small low-rank updates of some linear layers, and the head
mix_points         The places where the hidden states of a network can be mixed
network            A network to be trained on given rows, with what turns rows into its inputs
network_scale      How large a checkpoint is, from its configuration alone: no weights are loaded
pooled_layer       The last layer of an encoder, computed for the one position that the head reads
registration       Make the auto classes of transformers know calmix's own networks
text_cnn_building  A text CNN for given training rows: their words, a tokenizer that knows them
word_vectors       Word vectors from text files: GloVe's form, or word2vec's
"""
