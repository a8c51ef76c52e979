"""How the two stored models are made; serving imports none of this.

e5_weights    reads the default encoder's weights from the package that ships them
encoding      makes an `Encoder` of the lower layers of a BERT model
adapt         what the encoder's layers learn of texts about mood, once for all trainings
network       the classifier as it is trained, in PyTorch
fitting       trains it
onnx_graphs   writes both down as ONNX graphs
"""
