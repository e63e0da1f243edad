"""The tables and figures of the papers: presets (YAML), the runs they ask for, and a verdict on every claim.

analyses       Presets that train nothing: hyper-parameters, and the entropy of mixed labels
blocks         The comparisons that a preset is made of at a scale: one per model and task
catalogue      The presets that come with calmix, by paper and place, and the nearest names of a wrong one
cost           What a preset costs at a scale, in minutes of one core
datasets       Where the rows of a task are read from, and the copies of them that a scale asks for
detection      How well the runs of a block separate data they know from other data, row by row
effects        The measured effect of a claim: paired differences over rows and seeds
loading        A preset file read strictly: an unknown key or a wrong value gives one line
outcome        What a reproduction found, as one JSON file that everything is rendered from
preset         A table or figure of a paper as data: tasks, models, arms, rows, published numbers, claims
running        Run a preset at a scale: make what is missing, measure, write the outcome
smoke          The smallest scale: a tiny encoder and rows made in memory, seconds per preset
state          The state of every claim of every paper: verdict, not run yet, or untested here
verdicts       Held, reversed or undecided: a rule on effect, interval, noise floor and direction
"""
