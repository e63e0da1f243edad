"""How far a metric can be trusted: intervals, noise floors, paired differences.

views/             One set of predictions, prepared for all metrics of one kind
confidence_sample  Confidence and correctness of many rows in eight bytes a row, sortable in place
error_costs        What an error adds to the scores of its row
error_differences  Intervals of the difference of two calibration errors on the same rows
error_fields       Calibration errors as norms of the bins' gaps: what `inversion` needs to know of each
gamma_limits       Limits of a mean to which rare rows add much: they know how little was seen
intervals          Intervals of calibration errors for arrays of confidence and correctness
inversion          Intervals of calibration errors
mean_gap           How far mean confidence and accuracy may be apart: what a calibration error cannot hide
measured_value     A measured value with what its interval, and its difference from another model's
multiplicity       Several tests at once: how often a false finding may be made among all of them
noise_band         The noise band of a reliability diagram
noise_floor        The noise floor
ood_intervals      How well a score separates two sets of rows
ood_verdict        What an AUROC means, in a sentence, and which score to reject rows by
paired_accuracy    The difference of two accuracies on the same rows
random_groups      Random groups of rows: what metrics that share rows have in common, in bounded memory
rank_influence     Rank statistics of a large sample, and how much each row moves them
sampling_noise     How far the residuals of bins stray by chance: their standard deviations
"""
