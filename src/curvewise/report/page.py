"""The page: one HTML file with its data, its script and the chart library inside, no network."""

import base64
import html
import json
import re
import warnings
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from curvewise.base.errors import InputError, require
from curvewise.base.files import sha256, whole_file
from curvewise.base.machine import VERSION
from curvewise.report.page_data import page_data
from curvewise.report.page_input import Page

PAGE = "report.html"  # its name beside what it is about
INSTALL = 'pip install "curvewise[report]"'
SCRIPTS = ("statistics", "curves", "charts", "tables", "targets", "explorer", "panels", "page")


def page_html(page: Page) -> str:
    """Return the page as HTML.

    Everything from data is escaped, or lies in JSON that cannot end its element. The page's
    policy allows these very scripts and nothing from elsewhere.
    """
    library = plotly_script()
    version = re.search(r"plotly\.js v([\w.]+)", library[:2000])
    script = "\n".join(_file(f"{name}.js").replace('"use strict";\n', "") for name in SCRIPTS)
    script = f'"use strict";\n{script}'
    title = f"{page.task}: {page.class_names[1]} against {page.class_names[0]}"
    parts = {
        "policy": _policy(script, library),
        "version": html.escape(VERSION),
        "title": html.escape(title),
        "style": _file("page.css"),
        "library": html.escape(version[1] if version else ""),
        "data": json_for_html(page_data(page)),
        "plotly": library,
        "script": script,
    }
    # One pass: what is put in is not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("page.html"))


def write_page(page: Page, path: Path) -> Path:
    """Write the page under its name only when it is complete."""
    text = page_html(page)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
    return path


@cache
def plotly_script() -> str:
    """Return the chart library from its installed package."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError(f"the report needs Plotly's script: {INSTALL}") from None
    # A page's parser joins line ends, and the policy knows the script by its hash.
    script = str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")
    fits = "</script" not in script.lower() and "<!--" not in script
    require(fits, "Plotly's script must fit into a page, got one that would end it")
    return script


def has_plotly() -> bool:
    """Tell whether there can be a page; if not, warn."""
    if find_spec("plotly") is None:
        warnings.warn(f"no report page, which needs Plotly's script: {INSTALL}", stacklevel=2)
        return False
    return True


def json_for_html(data: Any) -> str:
    r"""Return JSON in which no text can end a script element or begin a comment.

    >>> json_for_html({"class": "</script>"})
    '{"class":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(bytes.fromhex(sha256([script]))).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _file(name: str) -> str:
    return (resources.files("curvewise.report") / "page_files" / name).read_text(encoding="utf-8")
