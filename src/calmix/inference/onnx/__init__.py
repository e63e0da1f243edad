"""A calibrated network as an ONNX file, for ONNX Runtime.

exporting   Write a network as ONNX, in float32 or with 8-bit weights
measuring   What exporting did to the predictions of a run, and the temperature that repairs it
running     An exported network that predicts like the checkpoint it came from
"""
