"""Limits of a norm against a plain search, one draw after the other."""

from __future__ import annotations

import numpy as np
import pytest

from calmix.calibration.uncertainty import inversion
from calmix.calibration.uncertainty.inversion import BISECTIONS, garrote, invert

NORMS = {
    "sum": lambda x: np.abs(x).sum(axis=-1),
    "square": lambda x: (x**2).sum(axis=-1),
    "largest": lambda x: np.abs(x).max(axis=-1),
}


def plain_search(path, norm, noise, seen, probability, start, end, *, rises):
    """Halve [start, end] until the norm along the path shows `seen` with this probability."""
    for _ in range(BISECTIONS):
        middle = (start + end) / 2
        gaps = path(middle)
        share = sum(norm(gaps + draw) >= seen for draw in noise) / len(noise)
        if (share >= probability) == rises:
            end = middle
        else:
            start = middle
    return end if rises else start


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("cells", [1, 7, 40])
def test_the_limits_are_those_of_a_plain_search(monkeypatch, name, cells):
    monkeypatch.setattr(inversion, "BLOCK_VALUES", 1000)  # several blocks, the last of them short
    generator = np.random.default_rng(cells)
    norm, scale = NORMS[name], generator.uniform(0.01, 0.02, cells)
    field = generator.normal(size=cells) * 0.05
    noise = generator.standard_normal((300, cells)) * scale
    found = invert(field, scale, noise, norm)
    seen, reach = norm(field), np.max(np.abs(field) / scale)
    spread = np.where(field < 0, -scale, scale)

    def shrunk(strength):
        return garrote(field, scale, strength)

    def grown(size):
        return size * spread

    low, corrected = (
        norm(shrunk(plain_search(shrunk, norm, noise, seen, p, 0.0, reach, rises=False)))
        for p in (0.025, 0.5)
    )
    large = 1.0
    while np.mean([norm(grown(large) + draw) >= seen for draw in noise]) < 0.975:
        large *= 2
    start = 0.0 if large == 1.0 else large / 2
    high = norm(grown(plain_search(grown, norm, noise, seen, 0.975, start, large, rises=True)))
    assert found.low == pytest.approx(low, abs=1e-15)
    assert found.corrected == pytest.approx(corrected, abs=1e-15)
    assert found.high == pytest.approx(max(high, found.hidden), abs=1e-15)
    assert found.low <= found.corrected <= found.hidden <= found.high
