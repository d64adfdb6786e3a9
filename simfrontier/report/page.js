// Draws the charts in the reader's colours, and switches between their variants.
(function () {
  "use strict";
  const config = {
    responsive: true,
    displaylogo: false,
    showSendToCloud: false, // nothing leaves this page
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  const known = {};

  function figures(name) {
    if (!known[name]) known[name] = JSON.parse(document.getElementById(name).textContent);
    return known[name];
  }

  function themed(figure, box) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const { data, layout } = structuredClone(figure);
    const narrow = box.clientWidth < 520;
    layout.font.color = colour("--ink");
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--accent") };
    layout.hoverlabel.bgcolor = colour("--panel");
    layout.hoverlabel.bordercolor = colour("--line");
    layout.hoverlabel.font.color = colour("--ink");
    for (const key of Object.keys(layout)) {
      if (/^[xy]axis/.test(key)) {
        layout[key].gridcolor = colour("--grid");
        layout[key].linecolor = colour("--line");
      }
    }
    if (narrow) {
      layout.font.size = 11;
      layout.legend.font = { size: 11 };
      layout.height += 70; // the legend takes more lines
    }
    for (const trace of data) {
      if (trace.marker && trace.marker.color === "#111111") {
        trace.marker.color = trace.marker.line.color = colour("--ink");
      }
    }
    return { data, layout };
  }

  function draw(box) {
    const { data, layout } = themed(figures(box.dataset.figures)[box.dataset.shown], box);
    box.style.minHeight = layout.height + "px";
    Plotly.react(box, data, layout, { ...config, displayModeBar: box.clientWidth < 520 ? false : "hover" });
  }

  const plots = [...document.querySelectorAll(".plot")];
  const redraw = () => plots.forEach(draw);
  redraw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-show]");
    if (!button) return;
    const chooser = button.closest(".chooser");
    for (const other of chooser.querySelectorAll("button[data-show]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    for (const panel of chooser.querySelectorAll(".panel")) panel.hidden = panel.dataset.variant !== button.dataset.show;
    for (const box of chooser.querySelectorAll(".plot")) {
      box.dataset.shown = button.dataset.show;
      draw(box);
    }
  });
})();
