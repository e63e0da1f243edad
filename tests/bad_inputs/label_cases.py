"""Several labels, soft labels, weights of rows and of classes, maps of labels, slices."""

from __future__ import annotations

from collections.abc import Iterator

from bad_inputs.case import BASE, TRAIN, Case, csv_lines, json_lines

FROM_FILE = (*BASE, "--train", "FILE")
SEPARATOR = ("--label-separator", ";")
TAGS = (*BASE, "--train", "TAGGED", *SEPARATOR)

LABEL_LISTS = {
    "strings": ("a", "b"), "mixed": (["a"], "b"), "nested": ([["a"]], ["b"]), "objects": ([{"a": 1}], ["b"]),
    "null-inside": (["a", None], ["b"]), "empty-name": (["a", ""], ["b"]), "blank-name": (["  "], ["b"]),
    "no-label": ([], []), "one-label": (["a"], []), "null": (None, ["b"]), "half": ([2.5], ["b"]),
    "nan": ([float("nan")], ["b"]), "surrogate": (["\ud800"], ["b"]), "object": ({"a": 1}, {"b": 1}),
}  # fmt: skip
LABEL_COLUMNS = {  # the columns, and the rows
    "missing": ("x,nothing", ("#,1,0", "#,0,1")), "one": ("x", ("#,1,0", "#,0,1")),
    "same": ("x,x", ("#,1,0", "#,0,1")), "empty": ("", ("#,1,0", "#,0,1")),
    "two": ("x,y", ("#,2,0", "#,0,1")), "negative": ("x,y", ("#,-1,0", "#,0,1")),
    "half": ("x,y", ("#,.5,0", "#,0,1")), "nan": ("x,y", ("#,nan,0", "#,0,1")),
    "word": ("x,y", ("#,yes,0", "#,0,1")), "blank": ("x,y", ("#,,0", "#,0,1")),
}  # fmt: skip
NOT_FOR_SEVERAL = (
    "--method tdmixup", "--method focal", "--class-weights balanced", "--sampling balanced",
    "--calibrator vector", "--calibrator perturbed", "--label-map positive=a", "--train-region easy",
    "--annotations-column label", "--label-prob-columns a,b", "--drop-unlabelled", "--slice label",
    "--weight-column text", "--label-smoothing 0.1", "--temperature-fit grid",
)  # fmt: skip
COMMANDS_OF_SEVERAL = (
    "evaluate SEVERAL", "evaluate SEVERAL --multi-label", "evaluate SEVERAL --label-separator |",
    "evaluate SEVERAL --label-separator ; --positive-class long",
    "evaluate SEVERAL --label-separator ; --class-names a,b",
    "evaluate SEVERAL --label-separator ; --ensemble",
    "evaluate SEVERAL --label-separator ; --slice label", "evaluate SCORES --multi-label",
    "evaluate SEVERAL --label-separator ; --weight-column prob_long", "evaluate TAGRUN --mc-dropout 3",
    "evaluate SEVERAL --label-columns prob_long", "evaluate TAGRUN RUN",
    "evaluate --model RUN --data TAGGED --label-separator ;",
    "calibrate TAGRUN --fit-on validation --method vector --output OUT",
    "calibrate TAGRUN --fit-on validation --method auto --output OUT", "calibrate TAGRUN --output OUT",
    "calibrate SEVERAL --fit-on SCORES --label-separator ; --output OUT",
    "calibrate SCORES --fit-on SEVERAL --output OUT",
    "calibrate RUN --fit-on TAGGED --label-separator ; --output OUT",
    "predict TAGRUN --input GOOD --output OUT.csv --coverage 0.9",
    "predict TAGRUN --input GOOD --output OUT.csv --target-accuracy 0.9",
    "predict TAGRUN --input GOOD --output OUT.csv --reject-ood", "predict TAGRUN --text a --accept-above 0.5",
    "ood TAGRUN --in GOOD --out o=GOOD", "export TAGRUN --output OUT", "map TAGRUN --output OUT",
    "adapt TAGRUN --perturbed --output OUT", "adapt TAGRUN --suggest 5 --from GOOD --output OUT.csv",
    "distill --train GOOD --model ENCODER --output OUT --epochs 1 --teacher TAGRUN",
    "compare --train TAGGED --label-separator ; --model ENCODER --output OUT --methods plain --seeds 0",
)  # fmt: skip
LABEL_SCORES = {
    "above-1": ("label,prob_a,prob_b", "a;b,1.2,.1"), "negative": ("label,prob_a,prob_b", "a;b,-.2,.1"),
    "nan": ("label,prob_a,prob_b", "a,nan,.1"), "word": ("label,prob_a,prob_b", "a,x,.1"),
    "unknown": ("label,prob_a,prob_b", "a;c,.2,.1"), "one": ("label,prob_a", "a,.5"),
    "both": ("label,prob_a,prob_b,logit_a,logit_b", "a,.5,.5,1,2"),
    "inf": ("label,logit_a,logit_b", "a,inf,.1"), "no-label": ("x,prob_a,prob_b", "a,.5,.5"),
}  # fmt: skip

ANNOTATIONS = {
    "empty": ([], ["a"]), "text": ("a;b", "b"), "null": (None, ["a"]), "nested": ([["a"]], ["b"]),
    "object": ({"a": 2}, {"b": 1}), "one-class": (["a"], ["a", "a"]), "half": ([1.5], [2]),
    "blank": ([""], ["a"]),
}  # fmt: skip
PROBABILITIES = {  # the columns, and a row
    "missing": ("p,z", "#,.5,.5"), "sum": ("p,q", "#,.5,.9"), "negative": ("p,q", "#,-.5,1.5"),
    "nan": ("p,q", "#,nan,.5"), "inf": ("p,q", "#,inf,.5"), "word": ("p,q", "#,a,.5"),
    "blank": ("p,q", "#,,1"), "zero": ("p,q", "#,0,0"), "one": ("p", "#,1,0"), "same": ("p,p", "#,.5,.5"),
    "pattern": ("label_prob_*", "#,.5,.5"), "percent": ("p,q", "#,50,50"), "text": ("p,text", "#,.5,.5"),
}  # fmt: skip
WEIGHTS = {
    "negative": "-1", "nan": "nan", "inf": "inf", "word": "x", "blank": "", "zero": "0", "tiny": "1e-320",
}  # fmt: skip
OPTIONS = (
    "--annotations-column nothing", "--annotations-column label", "--weight-column nothing",
    "--weight-column label", "--slice nothing", "--calibrator isotonic", "--sampling x", "--class-weights x",
    "--class-weights a=1", "--class-weights positive=0", "--class-weights positive=-1",
    "--class-weights positive=nan", "--class-weights positive=inf", "--class-weights positive=",
    "--class-weights positive=1,positive=2", "--class-weights balanced --sampling balanced",
    "--label-map positive", "--label-map positive=", "--label-map =x", "--label-map nothing=x",
    "--label-map positive=x", "--label-map positive=x --label-map negative=x",
)  # fmt: skip
CONFIGURATIONS = (
    "label_map: [a]", "label_map: x", "label_map: {positive: [a]}", "label_map: {positive: null}",
    "class_weights: {positive: 1}", "class_weights: [1, 2]", "label_prob_columns: {a: 1}", "label_columns: 3",
    "annotations_column: [a]", "weight_column: 3", "slice: [a]", "multi_label: 1", "label_separator: 3",
)  # fmt: skip


def cases() -> Iterator[Case]:
    for name, values in LABEL_LISTS.items():
        content = json_lines("label", *values)
        yield Case(f"labels:{name}", (*FROM_FILE, "--multi-label"), f"{name}.jsonl", content)
    for name, (columns, rows) in LABEL_COLUMNS.items():
        content = csv_lines("text,x,y", *rows)
        yield Case(f"label-columns:{name}", (*FROM_FILE, "--label-columns", columns), f"{name}.csv", content)
    for option in NOT_FOR_SEVERAL:
        yield Case(f"several labels {option}", (*TAGS, *option.split()))
    for command in COMMANDS_OF_SEVERAL:
        yield Case(command, tuple(command.split()))
    for name, (header, row) in LABEL_SCORES.items():
        content = csv_lines(header, row)
        yield Case(f"evaluate several:{name}", ("evaluate", "FILE", *SEPARATOR), f"{name}.csv", content)
        fit = ("calibrate", "FILE", "--fit-on", "FILE", *SEPARATOR, "--output", "OUT")
        yield Case(f"calibrate several:{name}", fit, f"{name}.csv", content)
    for name, values in ANNOTATIONS.items():
        command = (*FROM_FILE, "--annotations-column", "who")
        yield Case(f"annotations:{name}", command, f"{name}.jsonl", json_lines("who", *values))
    for name, (columns, row) in PROBABILITIES.items():
        command = (*FROM_FILE, "--label-prob-columns", columns)
        yield Case(f"label-probs:{name}", command, f"{name}.csv", csv_lines("text,p,q", row))
    for name, weight in WEIGHTS.items():
        rows = csv_lines("text,label,w", f"#,a,{weight}", "#,b,0" if name == "zero" else f"#,b,{weight}")
        yield Case(f"weights:{name}", (*FROM_FILE, "--weight-column", "w"), f"{name}.csv", rows)
        if name != "tiny":  # no metric depends on the scale of weights
            scores = csv_lines("label,prob_0,prob_1,w", f"0,.9,.1,{weight}")
            command = ("evaluate", "FILE", "--weight-column", "w")
            yield Case(f"evaluate weights:{name}", command, f"{name}.csv", scores)
    for option in OPTIONS:
        yield Case(f"train {option}", (*TRAIN, *option.split()))
    for text in CONFIGURATIONS:
        yield Case(f"config: {text}", (*TRAIN, "--config", "FILE"), "config.yaml", text.encode())
