// The drawing of a node's links, coloured and numbered by the share of its capacity that each uses.

// Of each link, the mean share over the parts of a step between two places; 1 is `whole` in the numbers of the parts.
function meanShares(links, whole, from, to) {
  const shares = {};
  for (const [name, used] of Object.entries(links)) {
    let sum = 0;
    for (let part = Math.floor(from); part < Math.min(Math.ceil(to), used.length); part++) {
      sum += used[part] * (Math.min(part + 1, to) - Math.max(part, from));
    }
    shares[name] = to > from ? sum / (to - from) / whole : 0;
  }
  return shares;
}

// `full`: the share at the dark end of the scale, whose `stops` are shares of it with colours.
function paintLinks(drawing, shares, full, stops) {
  const number = (share) => (share >= 0.0995 || share < 0.0005 ? (100 * share).toFixed(0) : (100 * share).toFixed(1));
  const shade = (share) => {
    const at = Math.min(Math.max(share, 0), 1);
    const next = Math.max(1, stops.findIndex(([end]) => at <= end));
    const [[low, before], [high, after]] = [stops[next - 1], stops[next]];
    const part = (at - low) / (high - low);
    return `rgb(${before.map((value, index) => Math.round(value + part * (after[index] - value))).join(",")})`;
  };
  for (const line of drawing.querySelectorAll("[data-link]")) {
    const share = shares[line.dataset.link] ?? 0;
    line.setAttribute("stroke", shade(share / full));
    const title = line.querySelector("title");
    if (title) title.textContent = `${line.dataset.link}: ${number(share)} % of its capacity`;
  }
  for (const label of drawing.querySelectorAll("[data-links]")) {
    label.textContent = number(Math.max(...label.dataset.links.split(" | ").map((name) => shares[name] ?? 0)));
  }
}
