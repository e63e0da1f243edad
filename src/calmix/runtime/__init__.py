"""The process of a run: devices, threads, random streams, process groups, progress, optional packages.

cache_directory    Where calmix keeps what several runs share: CALMIX_CACHE
double_precision   Double precision on every device
hardware           Settings of the processor that cost nothing and save time
hub                Whether the Hugging Face hub can be reached: asked once
large_arrays       Arrays that may outgrow the memory: large ones lie on disk, mapped
lock               A lock on work that several runs may ask for at once: one of them does it
option_values      Options whose value is one of a few words, checked without torch
optional_packages  What `pip install calmix` alone does not bring: training, and the networks it needs
processes          Which of several processes this is, as torchrun and accelerate say it
progress           Progress on standard error: a bar on a terminal, plain lines otherwise
randomness         Random draws as pure functions of what they are for
"""
