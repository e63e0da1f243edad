"""Out-of-domain detection by the runs of a comparison.

detection  How well the runs of a comparison detect out-of-domain data
rows       The rows that `calmix ood` compares: in-domain rows of a run, and sets of others
"""
