// Draws each chart when it comes near the screen, in the reader's colours, and switches between variants. The library
// and the charts' data are gzip in base 64: unpacked here, so that the page stays small and needs no network.
(function () {
  "use strict";
  const config = {
    responsive: true,
    displaylogo: false,
    showSendToCloud: false, // nothing leaves this page
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  const PAPER = 690; // pixels of a page of A4 between its margins; letter is wider
  const narrow = matchMedia("(max-width: 560px)"); // as in page.css
  const plots = [...document.querySelectorAll(".plot")];
  const known = {}; // figures by the name of their chart
  let ready; // the library, once a chart has asked for it
  let turn = Promise.resolve(); // of the chart that is drawn last

  // What stands in the page as gzip in base 64, in the element of this id.
  async function unpacked(id) {
    const packed = await fetch(`data:application/gzip;base64,${document.getElementById(id).textContent}`);
    return new Response(packed.body.pipeThrough(new DecompressionStream("gzip")));
  }

  // A script of its own address is decoded and parsed beside this thread, which one with its text in it is not.
  async function loadLibrary() {
    const script = document.createElement("script");
    script.src = URL.createObjectURL(await (await unpacked("library")).blob());
    await new Promise((loaded, failed) => {
      script.onload = loaded;
      script.onerror = failed;
      document.head.append(script);
    });
    URL.revokeObjectURL(script.src);
  }

  async function figuresOf(box) {
    const name = box.dataset.figures;
    return (known[name] ??= await (await unpacked(name)).json());
  }

  // Lines of about so many characters, apart from those that there are.
  function wrapped(text, width) {
    const lines = [];
    for (const line of text.split("<br>")) {
      lines.push("");
      for (const word of line.split(" ")) {
        if (lines.at(-1) && lines.at(-1).length + word.length >= width) lines.push("");
        lines.push(`${lines.pop()} ${word}`.trim());
      }
    }
    return lines.join("<br>");
  }

  // Pixels by which a chart is higher for the lines of its legend beyond the first two, which have as many columns as
  // the longest name leaves room for.
  function legendRoom(data, width) {
    const names = data.filter((trace) => trace.name && trace.showlegend !== false).map((trace) => trace.name.length);
    const plot = width - 80; // without the labels of the y axis
    const columns = Math.max(1, Math.floor(plot / (7 * Math.max(0, ...names) + 50)));
    return 19 * Math.max(0, Math.ceil(names.length / columns) - 2);
  }

  function themed(figure, width) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const { data, layout } = structuredClone(figure);
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
    layout.height += legendRoom(data, width);
    layout.legend.maxheight = 0.9; // of the chart: it is never scrolled
    if (narrow.matches) {
      layout.font.size = 11;
      layout.legend.font = { size: 11 };
      if (layout.xaxis) layout.xaxis.title.text = wrapped(layout.xaxis.title.text, 30);
      const rows = layout.yaxis?.categoryarray;
      if (rows) {
        const ticktext = rows.map((row) => wrapped(row, 26));
        Object.assign(layout.yaxis, { tickmode: "array", tickvals: rows, ticktext });
        layout.height += 13 * (ticktext.join("").split("<br>").length - rows.join("").split("<br>").length);
      }
    }
    for (const trace of data) {
      if (trace.error_x?.color === "#111111") trace.error_x.color = colour("--ink");
      if (trace.marker && trace.marker.color === "#111111") {
        trace.marker.color = trace.marker.line.color = colour("--ink");
      }
    }
    return { data, layout };
  }

  // On paper (a `width` in pixels is given) a chart is as wide as the page, whatever the window was.
  function draw(box, width) {
    const { data, layout } = themed(known[box.dataset.figures][box.dataset.shown], width || box.clientWidth);
    if (width) Object.assign(layout, { width, autosize: false });
    box.style.setProperty("--height", layout.height + "px");
    if (!("drawn" in box.dataset)) box.replaceChildren(); // the drawing that stood there
    Plotly.react(box, data, layout, { ...config, displayModeBar: narrow.matches ? false : "hover" });
    box.dataset.drawn = "";
    box.dispatchEvent(new Event("drawn"));
  }

  // The meaning of a term, beside it, while it is pointed at or has the focus; Escape hides it.
  const tip = Object.assign(document.createElement("div"), { id: "tip", role: "tooltip", popover: "manual" });
  let explained = null;
  function explain(event) {
    if (tip.contains(event.target)) return;
    const term = event.target.closest?.("a.term") ?? document.activeElement?.closest("a.term");
    if (term === explained) return;
    explained?.removeAttribute("aria-describedby");
    explained = term;
    if (!term) return tip.hidePopover();
    tip.textContent = document.getElementById(term.hash.slice(1)).textContent;
    term.setAttribute("aria-describedby", "tip");
    tip.showPopover();
    place();
  }
  function place() {
    const at = explained.getBoundingClientRect(), below = at.bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${below ? at.bottom + 4 : at.top - tip.offsetHeight - 4}px`;
  }
  if (document.getElementById("terms") && "popover" in tip) {
    document.body.append(tip);
    for (const what of ["pointermove", "focusin"]) document.addEventListener(what, explain);
    // The focus scrolls a term into sight: its meaning goes along.
    addEventListener("scroll", () => explained && place(), { passive: true });
    addEventListener("keydown", (event) => event.key === "Escape" && tip.hidePopover());
  }

  const onScreen = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

  // One after another: a chart is on the screen before the next is drawn.
  function show(box) {
    turn = turn
      .then(() => Promise.all([(ready ??= loadLibrary()), figuresOf(box)]))
      .then(() => draw(box))
      .then(onScreen)
      .catch(console.error);
  }

  const redraw = () => document.querySelectorAll(".plot[data-drawn]").forEach((box) => draw(box));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  narrow.addEventListener("change", redraw);

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
      if (typeof DecompressionStream === "function") show(box);
    }
  });

  if (typeof DecompressionStream !== "function") {
    const notice = document.querySelector(".no-charts");
    notice.hidden = plots.length === 0;
    notice.textContent = "The charts need a browser from 2023 or later. The tables and the text are complete.";
    return;
  }
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        show(target);
      }
    },
    { rootMargin: "100% 0px" } // a screen ahead
  );
  plots.forEach((box) => near.observe(box));

  // Paper shows every chart: all is unpacked when the reader's computer is idle and the first are drawn, and drawn before
  // a print.
  const idle = window.requestIdleCallback ?? ((task) => setTimeout(task, 2000));
  const unpackAll = () => plots.length && Promise.all([(ready ??= loadLibrary()), ...plots.map(figuresOf)]);
  addEventListener("load", () => idle(() => turn.then(unpackAll)));
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("on-paper"); // its colours are those of light
    if (typeof Plotly === "object") plots.filter((box) => known[box.dataset.figures]).forEach((box) => draw(box, PAPER));
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("on-paper");
    redraw();
  });
})();
