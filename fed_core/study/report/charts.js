// Draws the charts of a report when they come into view, in the colours of the page, and again when those change.
(function () {
  "use strict";
  const NARROW_PX = 560;
  const plots = Array.from(document.querySelectorAll(".plot"));
  const settings = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };

  function figureOf(plot) {
    return JSON.parse(document.getElementById(plot.dataset.figure).textContent);
  }

  function themed(layout, narrow) {
    const style = getComputedStyle(document.documentElement);
    const text = style.getPropertyValue("--text").trim();
    const rule = style.getPropertyValue("--rule").trim();
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { color: text, family: "system-ui, sans-serif", size: narrow ? 11 : 13 };
    layout.hoverlabel = { bgcolor: style.getPropertyValue("--page").trim(), font: { color: text }, namelength: -1 };
    Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key)).forEach((key) => {
      layout[key] = Object.assign({ gridcolor: rule, zerolinecolor: rule, linecolor: rule }, layout[key]);
    });
    // Long names would leave no room for the plot itself; hovering and the table tell them.
    if (narrow && layout.meta && layout.meta.longNames) layout.yaxis.showticklabels = false;
    return layout;
  }

  function draw(plot) {
    const figure = figureOf(plot);
    const narrow = plot.clientWidth < NARROW_PX;
    // On a telephone the bar of buttons would lie on the legend.
    const chosen = Object.assign({}, settings, { displayModeBar: narrow ? false : "hover" });
    Plotly.react(plot, figure.data, themed(figure.layout, narrow), chosen);
    plot.dataset.width = narrow ? "narrow" : "wide";
    plot.dataset.drawn = "yes";
  }

  function redraw(all) {
    plots.filter((plot) => plot.dataset.drawn).forEach((plot) => {
      const width = plot.clientWidth < NARROW_PX ? "narrow" : "wide";
      if (all || width !== plot.dataset.width) draw(plot);
    });
  }

  const seen = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      seen.unobserve(entry.target);
      draw(entry.target);
    });
  }, { rootMargin: "400px" });
  plots.forEach((plot) => seen.observe(plot));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw(true));
  addEventListener("resize", () => redraw(false));
  addEventListener("beforeprint", () => plots.filter((plot) => !plot.dataset.drawn).forEach(draw));
})();
