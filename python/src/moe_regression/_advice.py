"""What the command warns of and advises, with the estimator's arguments in the place of its flags."""

from __future__ import annotations

import re

SHOWN = 3  # warnings that stand in one warning of a fit

# The kinds of warnings, the weightiest first, as the command's first screen has them.
_BY_WEIGHT = ("repeated rows", "target", "range of g", "starts", "k too large", "stopped", "new rows", "gate",
              "collinear features", "no errors", "", "larger k", "smaller k")
_FIXED = {"robust": 'errors=["robust"]', "hac": 'errors=["hac"]', "zero-expert": "zero_expert=True",
          "intercept": "fit_intercept=True"}
_NAMES = {"k": "n_experts"} | {name.replace("_", "-"): name for name in (
    "starts", "family", "noise", "activation", "output_scale", "choose", "gate", "method", "dof", "formula")}


def arguments(text: str) -> str:
    """A line of the command with its flags as arguments; flags that have none stay as they are."""
    def one(match):
        flag, value = match.group(1), match.group(2)
        if flag in _FIXED:
            return _FIXED[flag] + (f" {value}" if value else "")
        if flag == "drop" and value:
            return f"a table without {value}"
        if flag not in _NAMES:
            return match.group(0)
        name = _NAMES[flag]
        if value is None:
            return name
        if flag == "k" and ":" in value:
            return "{}=({}, {})".format(name, *value.split(":"))
        return name + "=" + (value if re.fullmatch(r"[\d.]+", value) else '"{}"'.format(value.strip("'")))
    return re.sub(r"--([a-z]+(?:-[a-z]+)*)(?: ('[^']*'|[^\s,;:.()]+(?:[:.][^\s,;:.()]+)*))?", one, text)


def weighed(fit: dict) -> list[str]:
    """The warnings of a fit, the weightiest first, one of every kind before the second of any, and that its gate
    separates rows. Where k may be too large none says that a larger one may be better."""
    texts, kinds = fit.get("warnings") or [], fit.get("warning_kinds") or []
    if len(kinds) != len(texts):
        kinds = [""] * len(texts)
    found = []
    for i, (text, kind) in enumerate(zip(texts, kinds)):
        if kind != "larger k" or "k too large" not in kinds:
            weight = _BY_WEIGHT.index(kind) if kind in _BY_WEIGHT else _BY_WEIGHT.index("")
            found.append((kind != "" and kind in kinds[:i], weight, i, arguments(text)))
    out = [text for *_, text in sorted(found)]
    if fit.get("separation"):
        out.append("the gate separates rows, and at the maximum of the likelihood it is infinite")
    return out
