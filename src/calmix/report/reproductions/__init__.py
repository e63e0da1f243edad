"""What a reproduction of a paper's table shows to people: a report, pages per paper, the list of presets.

listing         What `calmix reproduce --list` shows: every preset, its claims, what it needs and costs
outcome_report  The report of a reproduction: the paper's table and ours, a forest plot, the regime
pages           Markdown pages: one per paper, and an index with the plan and the state of all claims
side_by_side    The tables of a reproduction: the paper's numbers beside ours, every claim with its verdict
"""
