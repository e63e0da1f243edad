"""The entropy of what mixup asks for, against its closed form (Thulasidasan et al. 2019, Figure 5).

    python results/mixup_uncertainty/target_entropy.py TRAIN.npz

The labels of the file are mixed as `input-mixup` mixes them in training: batches of 128 in a new order each
epoch, random pairs, one λ ~ Beta(α, α) for each row. Two different labels have the entropy
H(λ) = −λ ln λ − (1 − λ) ln(1 − λ) with

    E H = ψ(2α + 1) − ψ(α + 1),    P(H ≤ h) = 2 F_α(λ_h),  λ_h ≤ ½ the smaller root of H(λ) = h,

F_α the distribution function of Beta(α, α). Two equal labels have none: only pairs whose labels differ are
compared with it. Writes `target_entropy.json` and `target_entropy.svg` beside this file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, digamma, entr

from calmix.io.run_directory import write_json
from calmix.mixing.pairing import draw_ratio, random_involution
from calmix.mixing.targets import mixed, one_hot
from calmix.runtime.randomness import stream

ALPHAS = (0.1, 0.2, 0.4, 1.0)
BATCH, EPOCHS, BINS = 128, 20, 14
HERE = Path(__file__).parent


def drawn_entropies(labels: NDArray[np.int64], alpha: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The entropy of every target of training, and whether its two labels differ."""
    classes = int(labels.max()) + 1
    entropies, differ = [], []
    for epoch in range(EPOCHS):
        generator = stream(0, "target entropy", epoch)
        order = generator.permutation(len(labels))
        for start in range(0, len(labels) - BATCH + 1, BATCH):
            batch = torch.from_numpy(labels[order[start : start + BATCH]])
            partner = torch.from_numpy(random_involution(BATCH, generator))
            ratio = torch.from_numpy(draw_ratio(alpha, generator, size=BATCH))
            targets = mixed(one_hot(batch, classes, dtype=torch.float64), partner, ratio)
            entropies.append(entr(targets.numpy()).sum(axis=1))
            differ.append((batch != batch[partner]).numpy())
    return np.concatenate(entropies), np.concatenate(differ)


def share_below(entropy: float, alpha: float) -> float:
    """P(H ≤ h) where the labels differ."""
    if entropy <= 0 or entropy >= np.log(2):
        return float(entropy > 0)
    root = brentq(lambda ratio: entr(ratio) + entr(1 - ratio) - entropy, 0.0, 0.5, xtol=1e-300, rtol=1e-12)
    return float(2 * betainc(alpha, alpha, root))


def main() -> None:
    labels = np.load(sys.argv[1])["labels"].astype(np.int64)
    edges = np.linspace(0, np.log(2), BINS + 1)
    found: dict[str, Any] = {"rows": len(labels), "epochs": EPOCHS, "edges": edges.tolist(), "alphas": []}
    for alpha in ALPHAS:
        entropies, differ = drawn_entropies(labels, alpha)
        below = np.array([share_below(edge, alpha) for edge in edges])
        counts = np.histogram(np.minimum(entropies[differ], edges[-1]), edges)[0]
        expected = np.diff(below)
        error = np.sqrt(expected * (1 - expected) / differ.sum())
        found["alphas"].append(
            {
                "alpha": alpha,
                "different_labels": float(differ.mean()),
                "mean": float(entropies[differ].mean()),
                "closed_form": float(digamma(2 * alpha + 1) - digamma(alpha + 1)),
                "mean_of_all": float(entropies.mean()),
                "shares": (counts / differ.sum()).tolist(),
                "closed_form_shares": expected.tolist(),
                "largest_deviation_in_standard_errors": float(
                    np.abs((counts / differ.sum() - expected) / error).max()
                ),
            }
        )
    write_json(HERE / "target_entropy.json", found)
    (HERE / "target_entropy.svg").write_text(picture(found), encoding="utf-8")
    for one in found["alphas"]:
        print(", ".join(f"{name} {one[name]:.4f}" for name in one if not name.endswith("shares")))


def picture(found: dict[str, Any]) -> str:
    """Bars: what was drawn; lines: the closed form."""
    width, height, gap, top, bottom = 200, 150, 24, 26, 34
    box = f"0 0 {len(found['alphas']) * (width + gap) + gap} {height + top + bottom}"
    font = 'font-family="sans-serif" font-size="11"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {font}>']
    for panel, one in enumerate(found["alphas"]):
        left = gap + panel * (width + gap)
        tallest = max(*one["shares"], *one["closed_form_shares"])
        step = width / BINS
        parts.append(f'<text x="{left}" y="16" fill="#888888">α = {one["alpha"]:g}</text>')
        for place, share in enumerate(one["shares"]):
            bar = height * share / tallest
            parts.append(
                f'<rect x="{left + place * step:.1f}" y="{top + height - bar:.1f}" width="{step - 1:.1f}" '
                f'height="{bar:.1f}" fill="#4477AA"/>'
            )
        points = " ".join(
            f"{left + (place + side) * step:.1f},{top + height * (1 - share / tallest):.1f}"
            for place, share in enumerate(one["closed_form_shares"])
            for side in (0, 1)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="#EE6677" stroke-width="1.5"/>')
        parts.append(f'<text x="{left}" y="{top + height + 14}" fill="#888888">0</text>')
        parts.append(
            f'<text x="{left + width}" y="{top + height + 14}" fill="#888888" text-anchor="end">ln 2</text>'
        )
        parts.append(
            f'<text x="{left + width / 2}" y="{top + height + 28}" fill="#888888" text-anchor="middle">'
            "entropy of the target</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
