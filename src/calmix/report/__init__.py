"""Tables, figures, the HTML report and the model card: what a run shows to people.

adapted_card        The model card of an adapted checkpoint: for which data its confidence holds
calibration_report  The report of `calmix calibrate`: held-out metrics and reliability diagrams
comparison/         The report of a comparison, its tables, and `summary.md`
evaluation_tables   The tables of `calmix evaluate`: files side by side, and their paired differences
figures/            Figures for papers, by matplotlib: SVG and PDF
hub_upload          Share a run on the Hugging Face Hub: the folded model, its tokenizer
label_card          The parts of a model card that rows of several labels change
label_report        `report.html` where rows have several labels: of a run, of a calibration
label_tables        Tables of rows with several labels: all together, and label by label
learning            The verdict that a run has not learned, as its report
maps/               What `calmix map` shows: the data map page, its tables, its directory
model_card          `model/README.md`: the model card, in the form that the Hugging Face Hub reads
ood/                `ood.html`, of a run and of a comparison
pages/              HTML pages as data: prose, facts, tables and charts, in sections
prior_correction    What class weights did to the scores, and that it was taken back
reproductions/      What a reproduction of a paper's table shows: report, pages, list
run/                `report.html` of a run: verdict, reliability, training, dynamics
tables              Tables for people: one structure, rendered for the terminal
"""
