"""`ood.html`: how well confidence distinguishes in-domain from out-of-domain rows.

ood_comparison  Of a comparison: which method detects out-of-domain rows best
ood_report      Of a run
"""
