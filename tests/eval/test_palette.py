"""Colours that everybody can read: contrast, and distance under simulated colour blindness."""

from itertools import combinations

import numpy as np
import pytest

from cef_env.eval.palette import GROUNDS, NAMES, PALETTE, RUNS, TEXT, css, themed

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip
APART = 20
"""CIE76 distance; 2.3 is just noticeable, and text-book palettes for categories keep about 20."""


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG 2 contrast ratio."""
    dark, light = sorted(float(XYZ[1] @ linear(c)) for c in (one, other))
    return (light + 0.05) / (dark + 0.05)


def lab(colour, vision):
    xyz = XYZ @ np.clip(VISION[vision] @ linear(colour), 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_a_contrast_of_four_and_a_half_on_everything_it_stands_on(theme):
    for text in TEXT:
        for ground in GROUNDS:
            assert contrast(PALETTE[text][theme], PALETTE[ground][theme]) >= 4.5, (text, ground)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_marks_have_a_contrast_of_three_on_paper(theme):
    for mark in (*NAMES.values(), *RUNS, "accent"):
        assert contrast(PALETTE[mark][theme], PALETTE["paper"][theme]) >= 3, mark


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_outcomes_stay_apart_for_colour_blind_readers(theme, vision):
    for one, other in combinations(NAMES.values(), 2):
        distance = np.linalg.norm(lab(PALETTE[one][theme], vision) - lab(PALETTE[other][theme], vision))
        assert distance >= APART, (one, other, distance)


def test_a_figure_has_no_colour_that_the_page_cannot_change():
    drawn = "".join(light for light, _ in PALETTE.values())
    assert "#" not in themed(
        "".join(PALETTE[n][0] for n in ("paper", "ink", "soft", "accent", *NAMES.values()))
    )
    assert "var(--accent)" in themed(drawn)


def test_light_colours_of_marks_are_distinct_so_that_each_maps_to_one_variable():
    marks = ["paper", "ink", "soft", "accent", *NAMES.values(), *RUNS[1:]]
    assert len({PALETTE[name][0] for name in marks}) == len(marks)


def test_the_reader_s_choice_beats_the_system_and_paper_prints_light():
    rules = css()
    assert rules.index("prefers-color-scheme:dark") < rules.index("[data-theme=light]")
    assert rules.count("@media screen") == 2
