"""Charts as plain data for plotly: lines with bands, bars, and maps of fields.

Plotly reads a few HTML tags in every text, so each name is escaped; colours are those of Okabe and Ito, which people
with any kind of colour blindness tell apart, and lines differ in their dashes and marks, too.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Figure: TypeAlias = dict[str, Any]
Number: TypeAlias = "float | None"

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8c6d31", "#7f7f7f")
_DASHES, _MARKS = ("solid", "dash", "dot", "dashdot"), ("circle", "square", "diamond", "triangle-up", "x")
#: Colours of a scale from little to much.
_COLOUR_SCALE = "Cividis"
_ROW_PX, _LINE_PX = 20, 380
_LONG = 34
#: The largest value over the smallest one from which an axis is logarithmic.
_LOG_FROM = 8.0


@dataclass(frozen=True)
class Line:
    """One line.

    Attributes:
        name: for the legend.
        places: (T,) on the x axis.
        values: (T,) heights; None = nothing there.
        spread: (T,) half the height of its band; empty without one.
    """

    name: str
    places: Sequence[float]
    values: Sequence[Number]
    spread: Sequence[Number] = field(default=())


@dataclass(frozen=True)
class Scale:
    """Colours of a map of numbers.

    Attributes:
        unit: what the numbers are.
        low: number of the darkest colour.
        high: number of the lightest one.
    """

    unit: str
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True)
class Grid:
    """A map of fields.

    Attributes:
        rows: names of the rows, from above.
        columns: names of the columns.
        values: (rows, columns); None = nothing there.
        texts: what stands in each field; empty = nothing.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Number]]
    texts: Sequence[Sequence[str]] = field(default=())


def shown(text: str) -> str:
    """Return a text as plotly shows it: no tag of it is read."""
    return html.escape(text, quote=False)


def lines(found: Sequence[Line], *, x_title: str, y_title: str) -> Figure:
    """Return lines, each with a band where it has a spread."""
    traces = [trace for place, line in enumerate(found) for trace in _line(place, line)]
    heights = [value for line in found for value in line.values if value is not None]
    layout = _layout(_LINE_PX, x_title, y_title, len(found))
    layout["yaxis"].update(_log_axis(heights))
    layout["xaxis"].update(_whole_numbers(found))
    return {"data": traces, "layout": layout}


def bars(found: Sequence[Line], *, x_title: str, y_title: str) -> Figure:
    """Return bars on top of each other."""
    traces = [
        {**_bar(place, line.name), "x": list(line.places), "y": list(line.values)} for place, line in enumerate(found)
    ]
    layout = _layout(_LINE_PX, x_title, y_title, len(found))
    layout["xaxis"].update(_whole_numbers(found))
    return {"data": traces, "layout": {**layout, "barmode": "stack"}}


def named_bars(names: Sequence[str], found: Mapping[str, Sequence[float]], *, title: str) -> Figure:
    """Return a lying bar for each name, made of several parts.

    Args:
        names: of the bars, from above.
        found: lengths of all bars, by part.
        title: what the lengths are.
    """
    places = list(range(len(names)))
    traces = [
        {**_bar(place, part), "orientation": "h", "y": places, "x": list(lengths)}
        for place, (part, lengths) in enumerate(found.items())
    ]
    layout = _grid_layout(Grid(names, (), ()), title)
    layout["xaxis"] = {"title": {"text": shown(title)}, "rangemode": "tozero"}
    return {"data": traces, "layout": {**layout, "barmode": "stack", "showlegend": True}}


def _bar(place: int, name: str) -> Figure:
    marker = {"color": COLOURS[place % len(COLOURS)], "pattern": {"shape": ("", "/", ".")[place % 3]}}
    return {"type": "bar", "name": shown(name), "marker": marker}


def fields(grids: Mapping[str, tuple[Grid, Scale]], *, x_title: str) -> Figure:
    """Return a map of numbers; several maps, all with the same rows and columns, are chosen by name in a menu."""
    traces = []
    for place, (name, (grid, scale)) in enumerate(grids.items()):
        bar = {"title": {"text": shown(scale.unit), "side": "right"}, "thickness": 12}
        trace = {**_heat(grid), "name": shown(name), "visible": place == 0, "colorbar": bar}
        traces.append({**trace, "colorscale": _COLOUR_SCALE, "zmin": scale.low, "zmax": scale.high})
    first, _ = next(iter(grids.values()))
    layout = _grid_layout(first, x_title)
    if len(grids) > 1:
        layout["updatemenus"] = [_menu(list(grids))]
        layout["margin"]["t"] = 56
    return {"data": traces, "layout": layout}


def groups(grid: Grid, *, x_title: str) -> Figure:
    """Return a map whose numbers are groups, each with a colour of its own; its texts stand in the fields."""
    most = len(COLOURS)
    values = [[None if value is None else value % most for value in row] for row in grid.values]
    steps = [[edge / most, colour] for place, colour in enumerate(COLOURS) for edge in (place, place + 1)]
    heat = _heat(Grid(grid.rows, grid.columns, values, grid.texts))
    heat |= {"colorscale": steps, "zmin": -0.5, "zmax": most - 0.5, "showscale": False, "xgap": 1, "ygap": 1}
    heat |= {"texttemplate": "%{text}", "textfont": {"size": 12}}  # plotly chooses black or white by the colour
    heat["hovertemplate"] = "%{customdata}<br>%{x}: %{text}<extra></extra>"
    return {"data": [heat], "layout": _grid_layout(grid, x_title)}


def _line(place: int, line: Line) -> list[Figure]:
    colour, dash = COLOURS[place % len(COLOURS)], _DASHES[place // len(COLOURS) % len(_DASHES)]
    name = shown(line.name)
    known = [
        (x, y, s)
        for x, y, s in zip(line.places, line.values, line.spread, strict=False)
        if y is not None and s is not None
    ]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "legendgroup": str(place),
        "x": list(line.places),
        "y": list(line.values),
        "line": {"color": colour, "dash": dash, "width": 2},
        "marker": {"symbol": _MARKS[place % len(_MARKS)], "size": 6},
    }
    if not any(s for _, _, s in known):
        return [trace]
    edge = [(x, y + s) for x, y, s in known] + [(x, y - s) for x, y, s in reversed(known)]
    # Under zero a logarithmic axis has nothing; the band ends a little above it there.
    floor = min((y for _, y, _ in known if y > 0), default=0.0) * 0.05
    band = {
        "type": "scatter",
        "x": [x for x, _ in edge],
        "y": [max(y, floor) if floor else y for _, y in edge],
        "fill": "toself",
        "fillcolor": colour,
        "opacity": 0.18,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": str(place),
        "mode": "lines",
    }
    return [band, trace]


def _heat(grid: Grid) -> Figure:
    heat: Figure = {
        "type": "heatmap",
        "z": [list(row) for row in grid.values],
        "x": [shown(name) for name in grid.columns],
        "y": list(range(len(grid.rows))),
        "customdata": [[shown(name)] * len(grid.columns) for name in grid.rows],
        "hovertemplate": "%{customdata}<br>%{x}: %{z:.3~f}<extra></extra>",
        "hoverongaps": False,
    }
    if grid.texts:
        heat["text"] = [[shown(text) for text in row] for row in grid.texts]
    return heat


def _grid_layout(grid: Grid, x_title: str) -> Figure:
    count = len(grid.rows)
    layout = _layout(max(200, 110 + _ROW_PX * count), x_title, "", 0)
    long = max((len(name) for name in grid.rows), default=0) > 14
    every = max(1, math.ceil(count / 150))
    layout["yaxis"] |= {
        "autorange": "reversed",
        "tickvals": list(range(0, count, every)),
        "ticktext": [shown(cut(name)) for name in grid.rows[::every]],
        "automargin": True,
        "showgrid": False,
        "tickfont": {"size": 11},
    }
    layout["xaxis"] |= {"type": "category", "showgrid": False}
    layout["meta"] = {"longNames": long}
    return layout


def cut(name: str) -> str:
    """Return a long name's end, which tells more than its beginning."""
    return name if len(name) <= _LONG else "…" + name[1 - _LONG :]


def _menu(names: Sequence[str]) -> Figure:
    buttons = [
        {
            "label": shown(cut(name)),
            "method": "restyle",
            "args": ["visible", [other == place for other in range(len(names))]],
        }
        for place, name in enumerate(names)
    ]
    font = {"color": "#1b1f24"}
    place = {"x": 0.0, "xanchor": "left", "y": 1.0, "yanchor": "bottom", "pad": {"b": 8}}
    return {"buttons": buttons, "bgcolor": "#eef1f4", "font": font, **place}


def _layout(height_px: int, x_title: str, y_title: str, legends: int) -> Figure:
    return {
        "height": height_px + 22 * math.ceil(max(0, legends - 3) / 3),
        "margin": {"l": 60, "r": 12, "t": 16, "b": 48},
        "xaxis": {"title": {"text": shown(x_title)}},
        "yaxis": {"title": {"text": shown(y_title)}},
        "showlegend": legends > 1,
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0.0, "traceorder": "normal"},
        "hovermode": "closest",
    }


def _log_axis(heights: Sequence[float]) -> Figure:
    """Return a logarithmic axis with plain numbers on it where the values differ much; else nothing."""
    if not heights or min(heights) <= 0 or max(heights) / min(heights) < _LOG_FROM:
        return {"rangemode": "tozero"}
    low, high = math.log10(min(heights) * 0.9), math.log10(max(heights) * 1.1)
    signs = (1, 2, 5) if high - low < 3 else (1,)
    marks = [s * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for s in signs]
    there = [mark for mark in marks if low <= math.log10(mark) <= high]
    ticks = {"tickvals": there, "ticktext": [f"{mark:g}" for mark in there]}
    return {"type": "log", "range": [low, high], **ticks}


def _whole_numbers(found: Sequence[Line]) -> Figure:
    """Return ticks at whole numbers, at most ten."""
    places = [place for line in found for place in line.places]
    if not places:
        return {}
    step = max(1, math.ceil((max(places) - min(places)) / 10))
    return {"tick0": 0, "dtick": step}
