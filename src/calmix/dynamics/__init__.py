"""Training dynamics of each row: record them, map them, find labels that are probably wrong.

cartography_files  Training dynamics as allenai/cartography writes them
cleanlab_export    The label issues found, in the form cleanlab users know
datamap            The data map: five numbers per row that say how training went for it
dynamics_file      `dynamics.parquet`: one row per training row, its dynamics in every epoch
importers          Dynamics from wherever they were recorded: a run, our parquet
label_estimate     How many labels are wrong: an estimate with its interval
label_noise        Likely mislabelled rows, found with threshold samples
map_summary        A data map in a few numbers: how large the regions are, how they overlap
margins            What one forward pass says about a row: its margin, the probability of its label
recorder           Records what training says about every row, a step at a time
regions            Easy, ambiguous and hard rows; low and high AUM
row_index          Row ids, and the way back from an id to its place
suspects           The rows to look at first
training_dynamics  The training dynamics of every row in every epoch: plain arrays
"""
