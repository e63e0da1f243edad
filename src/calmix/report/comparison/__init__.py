"""The report of a comparison.

comparison_report  `report.html`: the effects and the recommendation first, then tables, curves, costs
comparison_tables  The tables, and `summary.md`
effects            Forest plots of the differences to plain fine-tuning
overlay            The reliability curves of all methods in one diagram
"""
