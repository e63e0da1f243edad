"""Networks that transformers does not have, each in one file of its own.

A file here imports torch and transformers alone: it is copied into every checkpoint, which then loads without
calmix too (`trust_remote_code=True`). `calmix.register_networks()` makes the auto classes know them.
"""
