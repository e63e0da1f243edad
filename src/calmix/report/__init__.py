"""Tables, figures, the HTML report and the model card: what a run shows to people.

calibration_report  The report of `calmix calibrate`: held-out metrics and reliability diagrams
comparison          `report.html` of a comparison: the recommendation, the tables, the intervals
comparison_figures  The charts of a comparison: differences with their intervals
comparison_tables   The tables of a comparison, and `summary.md`
datamap             The data map as one HTML page: works offline, no library, 200,000 rows
dynamics_summary    The dynamics section: what training said about the rows
evaluation_tables   The tables of `calmix evaluate`: files side by side, and their paired differences
guidance            The stages of a guided run: the data map it was guided by, the groups of rows
history             The training section: the losses of every epoch, and which epoch was kept
hub_upload          Share a run on the Hugging Face Hub: the folded model, its tokenizer
learning            The verdict that a run has not learned, as its report
map_directory       What `calmix map` leaves on disk
map_tables          The tables that `calmix map` prints
model_card          `model/README.md`: the model card, in the form that the Hugging Face Hub reads
ood_comparison      `ood.html` of a comparison: which method knows best what it does not know
ood_report          `ood.html`: how well a run's confidence tells familiar data from other data
page                A self-contained HTML page: prose, facts, tables and charts, in sections
reliability         The reliability diagram: accuracy against confidence
reproductions/      What a reproduction of a paper's table shows: report, pages, list
risk_coverage       The risk-coverage curve: the error rate among the rows that are accepted
run_report          `report.html`: one run on one page, from the files of its directory
tables              Tables for people: one structure, rendered for the terminal
"""
