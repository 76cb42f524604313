"""The chart library of the page: Plotly's script from its installed package, with few traces."""

import re
import warnings
from collections.abc import Collection
from functools import cache

from curvewise.base.errors import InputError

PAGE = "report.html"  # its name beside what it is about
INSTALL = 'pip install "curvewise[report]"'
DRAWN = frozenset({"bar", "box", "heatmap"})  # and lines, which are always there


@cache
def plotly_script() -> str:
    """Return the chart library from its installed package, with the traces the page draws."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError(f"the report needs Plotly's script: {INSTALL}") from None
    # A page's parser joins line ends, and the policy knows the script by its hash.
    script = str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")
    if "</script" in script.lower() or "<!--" in script:
        raise InputError("Plotly's script must fit into a page, got one that would end it")
    return registering_only(without_upload(script), DRAWN)


def without_upload(script: str) -> str:
    """Return the script without its way to send a chart to a server.

    A page's policy can forbid requests, but not the window that the library opens to hand a
    chart's data over. So it has no server's address any more, and opens no window for one.

    >>> without_upload('plotlyServerURL:{valType:"string",dflt:"https://a.b/new"},c:1')
    'plotlyServerURL:{valType:"string",dflt:""},c:1'
    >>> without_upload('var a=window.open(n.href,"_blank");if(!a)return')
    'var a=null;if(!a)return'
    """
    script = re.sub(r'(plotlyServerURL:\{valType:"string",dflt:)"[^"]*"', r'\1""', script)
    return re.sub(r'\bwindow\.open\([\w$]+\.href,"_blank"\)', "null", script)


def registering_only(script: str, traces: Collection[str]) -> str:
    """Return the script so that it starts only the kinds of traces named.

    Starting all 40 and more kinds (maps, three dimensions, ...) takes half of the time in which a
    page loads. The script is returned as it is where its list of kinds is not found.

    >>> kinds = 'var a=W((x,y)=>{y.exports=b()});var b=W((x,y)=>{y.exports={name:"%s"}});'
    >>> script = kinds % "box" + kinds.replace("a=", "c=").replace("b", "d") % "pie"
    >>> registering_only(script + "P.register([a(),c()])", {"box"})[-17:]
    'P.register([a()])'
    >>> registering_only("other();", {"box"})
    'other();'
    """
    listed = re.search(r"\.register\(\[((?:[\w$]+\(\),?)+)\]\)", script)
    if not listed:
        return script
    kept = {entry: _trace(script, entry) for entry in listed[1].split(",")}
    kept = {entry: name for entry, name in kept.items() if name in traces}
    if set(kept.values()) != set(traces):
        return script
    return script[: listed.start(1)] + ",".join(kept) + script[listed.end(1) :]


def _trace(script: str, entry: str) -> str:
    """Return the name of the trace that an entry of the list stands for; empty if unknown."""
    module = rf'var {re.escape(entry[:-2])}=[\w$]+\(\([\w$]+,([\w$]+)\)=>\{{(?:"use strict";)?'
    found = re.search(rf"{module}\1\.exports=([\w$]+)\(\)\}}\)", script)
    if not found:
        return ""
    begin = script.find(f"var {found[2]}=")
    name = re.search(r'\bname:"(\w+)"', script[begin : script.find("});", begin)])
    return name[1] if name else ""


def has_plotly() -> bool:
    """Tell whether the chart library is installed."""
    from importlib.util import find_spec

    return find_spec("plotly") is not None


def library_version(script: str) -> str:
    """Return the version that the script names at its top."""
    found = re.search(r"plotly\.js v([\w.]+)", script[:2000])
    return found[1] if found else ""


def told_missing() -> bool:
    """Tell whether there can be no page for want of Plotly; if so, warn."""
    if has_plotly():
        return False
    warnings.warn(f"no report page, which needs Plotly's script: {INSTALL}", stacklevel=2)
    return True
