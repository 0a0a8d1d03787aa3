import pytest

from fed_cli.reports.plots import COLOURS, Grid, Line, Scale, bars, cut, fields, groups, lines, named_bars

go = pytest.importorskip("plotly.graph_objects")

HOSTILE = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    "figure",
    [
        lines([Line("a", [1, 2], [1.0, None], [0.1, None]), Line("b", [1], [3.0])], x_title="x", y_title="y"),
        lines([Line("a", [1, 2], [0.001, 900.0])], x_title="x", y_title="y"),
        lines([], x_title="x", y_title="y"),
        bars([Line("a", [1, 2], [1.0, 2.0])], x_title="x", y_title="y"),
        named_bars(["a", "b"], {"up": [1.0, 2.0], "down": [3.0, 4.0]}, title="MB"),
        fields({n: (Grid(["l"], ["1"], [[0.5]]), Scale("CKA")) for n in ("all", "one")}, x_title="round"),
        groups(Grid(["r"], ["1", "2"], [[0.0, None]], [["0 1", ""]]), x_title="round"),
    ],
)
def test_plotly_knows_every_property(figure: dict) -> None:  # type: ignore[type-arg]
    go.Figure(figure)  # raises for what it does not know


def test_a_band_is_mean_plus_and_minus_the_spread() -> None:
    band, line = lines([Line("a", [1, 2], [5.0, 4.0], [1.0, 0.5])], x_title="", y_title="")["data"]

    assert band["x"] == [1, 2, 2, 1]
    assert band["y"] == [6.0, 4.5, 3.5, 4.0]
    assert line["y"] == [5.0, 4.0]


def test_a_band_stays_above_zero_where_the_line_does() -> None:
    band, _ = lines([Line("a", [1, 2], [1.0, 20.0], [3.0, 1.0])], x_title="", y_title="")["data"]

    assert min(band["y"]) == pytest.approx(0.05)  # of the smallest mean


def test_the_axis_is_logarithmic_where_values_differ_much() -> None:
    def axis(*values: float) -> dict:  # type: ignore[type-arg]
        return lines([Line("a", [1, 2], values)], x_title="", y_title="")["layout"]["yaxis"]

    assert axis(1.0, 100.0)["type"] == "log"
    assert axis(1.0, 100.0)["ticktext"] == ["1", "2", "5", "10", "20", "50", "100"]
    assert "type" not in axis(1.0, 2.0)
    assert "type" not in axis(0.0, 100.0)


def test_no_text_can_be_read_as_a_tag() -> None:
    grid = Grid([HOSTILE], [HOSTILE], [[0.0]], [[HOSTILE]])
    figures = [
        lines([Line(HOSTILE, [1], [1.0], [1.0])], x_title=HOSTILE, y_title=HOSTILE),
        named_bars([HOSTILE], {HOSTILE: [1.0]}, title=HOSTILE),
        fields({n: (grid, Scale(HOSTILE)) for n in (HOSTILE, "b")}, x_title=HOSTILE),
        groups(grid, x_title=HOSTILE),
    ]

    assert "<script" not in repr(figures) and "&lt;script" in repr(figures)


def test_groups_beyond_the_colours_take_them_again() -> None:
    count = len(COLOURS) + 1
    figure = groups(Grid(["r"], [str(k) for k in range(count)], [[float(k) for k in range(count)]]), x_title="")

    assert figure["data"][0]["z"][0][-1] == 0.0


def test_long_names_keep_their_end() -> None:
    assert cut("head.bias") == "head.bias"
    assert cut("x" * 50 + "head.bias").endswith("head.bias") and len(cut("x" * 50)) == 34
