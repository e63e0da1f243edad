"""Many runs: the grid of arms and seeds, executors, paired statistics, the recommendation.

ood/             Out-of-domain detection by the runs of a comparison
arm_differences  The paired differences of a comparison: every arm against `plain`
bootstrap        The paired bootstrap: how far a difference between two arms can be trusted
cell             One run of a comparison, as a worker process or a Ray task does it
comparison       Many runs, one comparison: make the runs that are missing, and collect their results
comparison_plan  What a comparison is made of: its options, and the plan of its runs
contestants      Which two arms of a comparison the recommendation is about
demo             The demo: a small comparison on real sentences with a real encoder
executors        Where the runs of a comparison are made: in processes of this machine
grid             Which runs a comparison is made of: arms (a method with its options) times seeds
memory_files     Rows that were given as objects, as files that worker processes can read
progress         Progress of a comparison on standard error: a bar on a terminal, plain lines otherwise
recommendation   Advice, one of three: better, no worse within a margin, or cannot tell
required_runs    How many seeds, or rows, would decide a comparison that cannot tell yet
results          The results of a comparison as plain records, and the two files that hold them
seed_ensemble    The seeds of one arm as an ensemble: probabilities averaged first, calibrated after
significance     Which differences of a comparison are significant, where several arms are tested at once
slices           The metrics of every arm for each value of a column, over its seeds
summary          Mean and standard deviation over seeds
"""
