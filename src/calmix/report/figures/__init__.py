"""Figures for papers and slides, by matplotlib; they show what the pages show, in the same colours.

comparison_figures    Of a comparison: the effects of the methods, and their reliability curves
files                 SVG and PDF files of figures
map_figures           Of a data map: variability against confidence, by region
ood_figures           Of out-of-distribution detection: confidence by set of data, AUROC by method
risk_coverage_figure  Of any predictions: the error rate among the rows that are accepted
run_figures           Of a run: every split, and the training
"""
