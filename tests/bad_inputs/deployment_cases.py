"""After training: prediction sets, other domains, exported and shared models, figures, reproductions."""

from __future__ import annotations

from collections.abc import Iterator

from bad_inputs.case import Case, csv_lines

COMMANDS = (
    *(f"predict RUN --input GOOD --output OUT.csv {options}" for options in (
        "--coverage 0", "--coverage 1", "--coverage nan", "--coverage -1", "--coverage x",
        "--coverage 0.9 --set-method nothing", "--class-conditional", "--set-method aps",
        "--coverage 0.9 --validation nowhere.csv", "--coverage 0.9 --validation SCORES", "--batch-size 0",
        "--target-accuracy nan", "--accept-above 2", "--target-accuracy .9 --accept-above .9",
        "--reject-ood", "--id-column nothing",
    )),
    *(f"adapt RUN --output OUT {options}" for options in (
        "", "--labelled GOOD --perturbed", "--labelled nowhere.csv", "--labelled SCORES", "--labelled TAGGED",
        "--unlabelled GOOD --method nothing", "--method pseudocal", "--perturbed --method lascal",
        "--suggest 5", "--from GOOD", "--suggest 0 --from GOOD", "--suggest -1 --from GOOD",
        "--suggest 5 --from nowhere.csv", "--suggest 5 --from GOOD --design nothing",
        "--suggest 5 --from GOOD --labelled GOOD", "--suggest 5 --from GOOD --seed -1",
        "--labelled GOOD --seed -1", "--perturbed --seed -1", "--unlabelled GOOD --method lascal --seed -1",
        "--labelled GOOD --max-length 0", "--labelled GOOD --max-length -5",
        "--labelled GOOD --label-column nothing",
    )),
    "adapt RUN --labelled GOOD", "adapt RUN --labelled GOOD --output RUN",
    "adapt nowhere --perturbed --output OUT",
    "adapt RUN --suggest 5 --from GOOD --output GOOD", "adapt ENCODER --perturbed --output OUT",
    "calibrate RUN/model --fit-on GOOD --max-length 0 --output OUT",
    "calibrate RUN/model --fit-on GOOD --max-length -3 --output OUT",
    "evaluate --model RUN --data GOOD --max-length 0",
    "distill --train GOOD --model ENCODER --output OUT --teacher RUN --distill-temperature 1e300",
    *(f"export RUN --output OUT {options}" for options in (
        "--format nothing", "--tolerance nan", "--tolerance -1", "--batch-size 0", "--output RUN",
        "--output GOOD/x", "--output /proc/x",
    )),
    "export nowhere --output OUT", "export GOOD --output OUT", "export RUN/model --output OUT",
    *(f"push RUN {name}" for name in ("a", "../x", "a/b/c", "a//b", "a/.git", "/etc", "a/b..c")),
    "push RUN a/\x1b[31m",
    "push nowhere a/b", "push RUN/model a/b",
    "evaluate SCORES --figures SCORES", "evaluate SCORES --figures SCORES/x",
    "evaluate SCORES --figures /proc/x",
    "evaluate SCORES --slice nothing", "evaluate RUN --slice text", "train --train GOOD --output /proc/x",
    "reproduce", "reproduce nothing/table --output OUT", "reproduce tdmixup/table2 --output OUT",
    "reproduce tdmixup/table2 --output OUT --scale nothing", "reproduce --from nowhere",
    "reproduce --from RUN",
    *(f"reproduce mixup-uncertainty/text --scale smoke --output OUT {options}" for options in (
        "--workers 0", "--workers -1", "--threads 0", "--executor nothing", "--device nothing",
        "--output GOOD",
    )),
)  # fmt: skip
WEIGHED = "text,label,design_weight"
LABELLED = {
    "few": b"text,label\na,positive\n", "header": b"text,label\n", "empty": b"",
    "unknown": csv_lines("text,label", "#,positive", "#,other"),
    "blank": csv_lines("text,label", "#,positive", "#,"),
    **{f"weight-{weight}": csv_lines(WEIGHED, "#,negative,1", f"#,positive,{weight}")
       for weight in ("-1", "nan", "x", "0", "inf", "")},
}  # fmt: skip
UNLABELLED = {"empty": b"", "one": b"text\na\n", "no-text": b"x\n1\n2\n", "blank": b'text\n""\n""\n'}

PRESET = """
place: Table 1
title: {title}
metrics: {metrics}
models: {{{model}: {{model: text-cnn}}}}
tasks: {{{task}: {{dataset: {dataset}}}}}
arms: {{plain: {{method: {method}}}}}
scales: {scales}
"""
GOOD_PRESET = {
    "title": "ours", "metrics": "[accuracy]", "model": "cnn", "task": "films", "dataset": "films",
    "method": "plain", "scales": "{full: {seeds: [0]}}",
}  # fmt: skip
PRESETS = {
    "empty": "", "list": "- 1", "word": "word", "torn": "place: [", "latin": b"title: \xe9",
    "python": "place: !!python/object/apply:os.system ['true']", "date": "place: 2021-13-45",
    "deep": "{a: " * 3000 + "1" + "}" * 3000, "unknown": "nothing: 1", "digits": "bins: !!int ",
    **{f"{key}-{value}": PRESET.format(**{**GOOD_PRESET, key: value}) for key, value in (
        ("metrics", "3"), ("metrics", "[nothing]"), ("metrics", "null"), ("model", '"../../x"'),
        ("task", '"../../x"'), ("task", '"/x"'), ("dataset", "../../x"), ("dataset", '".."'),
        ("method", "nothing"), ("method", "[1]"), ("scales", "3"), ("scales", "{full: 3}"),
        ("scales", "{nothing: {}}"), ("title", ""),
    )},
}  # fmt: skip
CARDS = {"empty": b"", "no-front": b"# run\n", "torn": b"---\na: [\n---\n", "list": b"---\n- 1\n---\n",
         "latin": b"---\na: \xe9\n---\n", "index": b"---\nmodel-index: 3\n---\n"}  # fmt: skip


def cases() -> Iterator[Case]:
    for command in COMMANDS:
        yield Case(command.replace("\x1b", "ESC"), tuple(command.split()))
    for name, content in LABELLED.items():
        command = ("adapt", "RUN", "--labelled", "FILE", "--output", "OUT")
        yield Case(f"adapt labelled:{name}", command, f"{name}.csv", content)
    for name, content in UNLABELLED.items():
        for method in ("pseudocal", "lascal", "density"):
            command = ("adapt", "RUN", "--unlabelled", "FILE", "--method", method, "--output", "OUT")
            yield Case(f"adapt {method}:{name}", command, f"{name}.csv", content)
    for name, text in PRESETS.items():
        content = text if isinstance(text, bytes) else text.encode()
        command = ("reproduce", "FILE", "--scale", "smoke", "--output", "OUT")
        yield Case(f"preset:{name}", command, "preset.yaml", content)
    for name, content in CARDS.items():
        yield Case(f"card:{name}", ("push", "RUN", "me/model"), "RUN/model/README.md", content)
