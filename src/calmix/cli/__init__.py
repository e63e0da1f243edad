"""The command line: one file per verb parses, calls and prints.

adapt             `calmix adapt`: recalibrate a model for the data you deploy it on
app               The `calmix` command: one verb per file, and one place where errors become exit codes
calibrate         `calmix calibrate`: calibrate what is already trained
compare           `calmix compare`: which method should I use on my data?
demo              `calmix demo`: see it work on real data, with nothing but the package index
distill           `calmix distill`: a student that learns from a teacher's predictions and the labels
evaluate          `calmix evaluate`: how well calibrated are existing predictions?
export            `calmix export`: a calibrated model for ONNX Runtime
interruption      Ctrl-C and SIGTERM: one line that says how to continue
map               `calmix map`: which training rows are easy, ambiguous, probably mislabelled?
methods           `calmix methods`: what there is to choose from
ood               `calmix ood`: detect out-of-domain data.
options           Options that all verbs share: `--config` and `--json`
predict           `calmix predict`: labels with a confidence that can be acted on
push              `calmix push`: share a calibrated model on the Hugging Face Hub
reproduce         `calmix reproduce`: show me the papers' tables
surroundings      What the machine allows: a terminal that knows few characters, places that are read-only
train             `calmix train`: from labelled files to a calibrated classifier
training_options  The options that every verb which trains has: data, training
"""
