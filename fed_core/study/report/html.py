"""A report as one HTML file that loads nothing: styles, pictures, and what draws its charts, are inside."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from fed_core.extras import needs
from fed_core.study.report.document import Report

#: In every page that this module writes, and so in no other's.
GENERATOR = "fed_perception report"

_HERE = Path(__file__).parent
#: What would end a script or begin a comment inside it, and two line ends that older browsers take for such.
_HARMFUL = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def to_html(report: Report) -> str:
    """Return the report as one page.

    Nothing but the scripts of this package runs in it, even where a text slipped through unescaped: the page names
    them by their digests in its content security policy.

    Raises:
        ConfigError: it has charts, and plotly is not installed.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    scripts = [_plotly(), (_HERE / "charts.js").read_text(encoding="utf-8")] if report.charts else []
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.filters["data_url"] = _data_url
    environment.filters["script_json"] = _script_json
    template = environment.get_template("page.html.jinja")
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in scripts) or "'none'"
    return template.render(report=report, scripts=scripts, script_hashes=hashes, generator=GENERATOR)


def _plotly() -> str:
    with needs("report", "charts need plotly"):
        from plotly.offline import get_plotlyjs
    return str(get_plotlyjs())


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _script_json(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"), allow_nan=False, ensure_ascii=False).translate(_HARMFUL)
