// The drawing of a node shows the moment that is pointed at in the chart below it, or the stretch that the chart shows.
(function () {
  "use strict";
  const plot = document.querySelector('[data-figures="fig-links"]'), chooser = plot.closest(".chooser");
  const said = document.getElementById("stretch"), end = chooser.querySelector(".key text:last-child");
  const first = { said: said.textContent, end: end.textContent };
  const whole = new Map(); // what drawings are, of the whole step

  function show(stretch) {
    const drawing = chooser.querySelector(".panel:not([hidden]) .drawing");
    if (!whole.has(drawing)) whole.set(drawing, drawing.innerHTML);
    if (!stretch) {
      for (const [each, html] of whole) each.innerHTML = html;
      [said.textContent, end.textContent] = [first.said, first.end];
      return;
    }
    const { links, whole: one, step, full, stops } = plot.layout.meta;
    const parts = Object.values(links)[0]?.length ?? 1;
    const [from, to] = stretch.map((time) => Math.min(Math.max(time / step, 0), 1) * parts);
    paintLinks(drawing, meanShares(links, one, from, to), full, stops);
    const [per, unit] = step < 1 ? [1e3, "ms"] : [1, "s"];
    const [a, b] = stretch.map((time) => Number((per * time).toPrecision(4)));
    said.textContent = `The drawing shows ${a} to ${b} ${unit}.`;
    end.textContent = `${Number((100 * full).toPrecision(3))} %`;
  }

  // What the chart shows, or nothing where that is the whole step.
  function shown() {
    const { step } = plot.layout.meta, [from, to] = plot.layout.xaxis.range;
    return from > 0 || to < step ? [from, to] : null;
  }

  plot.addEventListener("drawn", () => {
    show(null);
    if (plot.dataset.watched) return;
    plot.dataset.watched = "";
    plot.on("plotly_relayout", () => show(shown()));
    plot.on("plotly_unhover", () => show(shown()));
    plot.on("plotly_hover", ({ points }) => {
      const { links, step } = plot.layout.meta, part = step / (Object.values(links)[0]?.length ?? 1);
      show([points[0].x, points[0].x + part]);
    });
  });
})();
