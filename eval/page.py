"""Turns results into pages: templates, figures in both widths, embedded data, a policy that loads nothing.

Whatever comes from outside (ids, statements, programs, notes) is escaped by the template or embedded as data
that the page's script writes as text; the content security policy names the script by its hash, so nothing
else in the page can run. Does not know what a run directory is: see `report.py` and `comparison.py`.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cef_env.eval import palette
from cef_env.eval.claim_lines import VERDICT_CLASSES, VERDICT_MARKS, VERDICT_WORDS
from cef_env.eval.counts import OUTCOMES
from cef_env.eval.figures import member_name, number, words
from cef_env.eval.intervals import Interval
from cef_env.eval.plotting import inline_svg, save

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

TEMPLATES = files("cef_env.eval") / "templates"
CAUSE_UNKNOWN = "it does not exist for these data"


@dataclass(frozen=True)
class Picture:
    """One figure of the page, drawn for a desk and for a phone."""

    id: str
    wide: str
    narrow: str
    caption: str


def picture(
    id_: str, caption: str, draw: "Callable[[bool], Figure]", figures_to: Path | None = None
) -> Picture:
    """`draw(narrow)` twice for the page; the wide one also as `figures_to/ID.png` and `.svg`."""
    title = caption.split(". ")[0]
    wide = draw(False)
    if figures_to is not None:
        figures_to.mkdir(parents=True, exist_ok=True)
        for suffix in ("png", "svg"):
            save(wide, figures_to / f"{id_}.{suffix}")
    svg = inline_svg(wide, id_, title)
    return Picture(id_, svg, inline_svg(draw(True), f"{id_}-narrow", title), caption)


def render(template: str, scripts: Sequence[str], **values: Any) -> str:
    """The page from `templates/TEMPLATE` with the named scripts inside it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("cef_env.eval", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=_number,
        typeset=typeset,
        member=member_name,
        prose=_prose,
        alpha=number,
        words=words,
        sentence=_sentence,
        slug=slug,
        thousands=thousands,
    )
    script = "\n".join(_file(name) for name in scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return environment.get_template(template).render(
        policy=policy,
        styles=Markup(palette.css() + "\n" + _file("page.css")),
        script=Markup(script),
        outcomes=OUTCOMES,
        names=palette.NAMES,
        marks=VERDICT_MARKS,
        verdicts=VERDICT_WORDS,
        classes=VERDICT_CLASSES,
        **values,
    )


def embed(value: Any) -> "Markup":
    """JSON for a `<script type="application/json">`: no character that HTML gives a meaning."""
    from markupsafe import Markup

    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def flatten(meta: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Nested values as rows of a table, `training.steps` and so on."""
    if isinstance(meta, Mapping):
        return [
            row
            for key, value in meta.items()
            for row in flatten(value, f"{prefix}.{key}" if prefix else str(key))
        ]
    if isinstance(meta, list | tuple):
        return [(prefix, ", ".join(_plain(v) for v in meta))]
    return [(prefix, _plain(meta))]


def slug(text: str) -> str:
    """Letters, digits and hyphens, for ids and file names."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text)


def typeset(text: str) -> str:
    """Names of measures with true minus signs and Greek letters."""
    text = re.sub(r"\balphas?\b(?= -?\d)", "\N{GREEK SMALL LETTER ALPHA} =", text)
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", text).replace(" - ", " \N{MINUS SIGN} ")


def _prose(text: str) -> "Markup":
    """With what stands in backticks as code."""
    from markupsafe import Markup, escape

    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def _plain(value: Any) -> str:
    if value is None:
        return "not set"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _file(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _number(x: "float | Interval", why: str = CAUSE_UNKNOWN) -> "Markup":
    """Three decimals with the interval; a dash that says why where there is no number."""
    from markupsafe import Markup

    interval = x if isinstance(x, Interval) else Interval(x)
    why = interval.reason or why
    if interval.value != interval.value:
        return Markup('<span class="none" tabindex="0" title="no number: {0}">–</span>').format(why)
    text = Markup('<b class="num">{}</b>').format(_signed(interval.value))
    if interval.known:
        bounds = f"[{_signed(interval.low)}, {_signed(interval.high)}]"
        text += Markup(' <span class="range">{}</span>').format(bounds)
    elif interval.reason:
        dash = '<span class="none" tabindex="0" title="no interval: {}">[–]</span>'
        text += Markup(" " + dash).format(interval.reason)
    return text


def _signed(value: float) -> str:
    return f"{value + 0.0:.3f}".replace("-", "\N{MINUS SIGN}")


def thousands(value: int) -> str:
    """With thin spaces: 55 296."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _sentence(text: str) -> str:
    """With a capital at the start, unless that is a name such as pass@k or a Greek letter."""
    first = text.split(" ")[0]
    return text[:1].upper() + text[1:] if first.isascii() and first.strip(",:").isalpha() else text
