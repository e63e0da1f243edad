"""Metrics as pure functions: binning, calibration errors, proper scores, selective prediction, OOD detection.

agreement        How predicted and true classes agree, beyond the share of right answers
binning          Confidence bins: where a confidence falls, and what each bin holds
class_bins       The bins of every class at once: [C, M] sums of p_k and of "the label is k"
compensated_sum  Sums in float64 of data that come in pieces, whatever the number
errors           Binned calibration errors
kolmogorov       The Kolmogorov-Smirnov calibration error and test: no bins at all
notions          The three notions of calibration, named in the call and never guessed
ood              Out-of-distribution detection: in-domain rows against others, by scores of the logits
risk_coverage    The risk-coverage curve
scores           Proper scores and accuracy of `Predictions`, row by row and as (weighted) means
selective        Which answers may be accepted: thresholds on the confidence, as seen and with a guarantee
smooth           SmoothECE (Blasiok & Nakkiran 2024): calibration error without bins
"""
