"""The cards are read from the files; the classes are the reference."""

import dataclasses
import subprocess
import sys

import pytest

from calmix.mixing.catalogue import method_cards
from calmix.mixing.method import method_classes


def test_cards_say_what_the_classes_declare():
    classes, cards = method_classes(), method_cards()
    assert list(cards) == list(classes)
    for name, cls in classes.items():
        card = dataclasses.asdict(cards[name])
        assert card.pop("options") == {option.name: option.default for option in dataclasses.fields(cls)}
        assert card == {fact: getattr(cls, fact) for fact in card}


def test_option_order_is_that_of_the_dataclass():
    for name, cls in method_classes().items():
        assert list(method_cards()[name].options) == [option.name for option in dataclasses.fields(cls)]


@pytest.mark.processes
def test_calmix_methods_loads_no_torch():
    code = (
        "import sys; from calmix.cli.app import main\n"
        "try: main(['methods', '--json'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert '"name": "tdmixup"' in done.stdout
    assert done.stderr.strip().splitlines()[-1] == "[]"
