"""`report.html` of a run.

dynamics_summary  The dynamics section: what training said about the rows
explorer          The predictions as the page holds them, for its controls
guidance          The stages of a guided run: the data map it was guided by, the groups of rows
headline          The facts: what was trained, how, and the result
history           The training section: the losses of every epoch, which was kept, the regime
metrics_section   The metrics: a table that anybody can read, the full one; weights, slices
next_steps        What to do with the run
reliability       The reliability diagram: accuracy against confidence, with the noise of chance
row_texts         The texts behind a run, read again from its files
run_facts         What went into a run: its data checks and its configuration
run_report        The page: one run, from the files of its directory
verdict           Whether the confidence can be trusted, in domain and on every other test set
"""
