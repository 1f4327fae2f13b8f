"use strict";
// The controls of a page: zoom that charts share, selections, lists to choose from, light and dark, print.

const Controls = (() => {
  // ------------------------------------------------------------------------------------------- small DOM help

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes))
      key.startsWith("on") ? element.addEventListener(key.slice(2), value) : element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const clean = (text) =>
    String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const announce = (text) => {
    document.getElementById("announce").textContent = text;
  };
  const table = (caption, headings, rows) => {
    const frame = make("div", { class: "table", role: "region", tabindex: "0", "aria-label": caption });
    const head = headings.map((text) => `<th scope="col">${clean(text)}</th>`).join("");
    const body = rows
      .map(
        ([name, ...cells]) =>
          `<tr><th scope="row">${clean(name)}</th>${cells.map((cell) => `<td>${clean(cell)}</td>`).join("")}</tr>`,
      )
      .join("");
    const title = `<caption>${clean(caption)}</caption>`;
    frame.innerHTML = `<table>${title}<thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>`;
    return frame;
  };

  const download = (name, type, text) => {
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    announce(`${name} is saved`);
  };

  // ------------------------------------------------------------------------------------------- zoom, shared by name

  const groups = new Map();
  const zoomGroup = (name, low, high) => {
    if (!groups.has(name)) groups.set(name, { full: [low, high], now: [low, high], followers: [] });
    const group = groups.get(name);
    group.full = [Math.min(group.full[0], low), Math.max(group.full[1], high)];
    group.now = [...group.full];
    return group;
  };
  const zoomTo = (group, low, high, smallest = 1e-4) => {
    const [begin, end] = group.full,
      least = (end - begin) * smallest;
    const span = Math.min(Math.max(high - low, least), end - begin);
    const from = Math.min(Math.max((low + high - span) / 2, begin), end - span);
    group.now = [from, from + span];
    for (const follow of group.followers) follow();
  };
  const zoomBy = (group, factor, at = 0.5) => {
    const [low, high] = group.now,
      centre = low + at * (high - low);
    zoomTo(group, centre - (centre - low) * factor, centre + (high - centre) * factor);
  };
  const panBy = (group, part) => {
    const [low, high] = group.now,
      move = part * (high - low);
    zoomTo(group, low + move, high + move);
  };
  const reset = (group) => zoomTo(group, ...group.full);
  const button = (text, label, act) =>
    make("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const zoomTools = (group) => [
    button("+", "Zoom in", () => zoomBy(group, 0.5)),
    button("−", "Zoom out", () => zoomBy(group, 2)),
    button("←", "Earlier", () => panBy(group, -0.5)),
    button("→", "Later", () => panBy(group, 0.5)),
    button("Whole time", "Show the whole time", () => reset(group)),
  ];

  // Dragging with a mouse or pen selects a part; `area` returns the box in which that works.
  const selectable = (element, area, chosen) => {
    const box = make("div", { class: "selection", hidden: "" });
    element.append(box);
    let from = null;
    const place = (event) => {
      const frame = element.getBoundingClientRect(),
        { left, top, right, bottom } = area();
      const inside = (value, low, high) => Math.min(Math.max(value, low), high);
      return [inside(event.clientX - frame.left, left, right), inside(event.clientY - frame.top, top, bottom)];
    };
    const show = (to) => {
      box.hidden = Math.abs(to[0] - from[0]) < 4;
      box.style.cssText =
        `left:${Math.min(from[0], to[0])}px;width:${Math.abs(to[0] - from[0])}px;` + chosen.box(from, to, area());
    };
    element.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" || event.button !== 0) return;
      from = place(event);
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => from && show(place(event)));
    element.addEventListener("pointerup", (event) => {
      const to = from && place(event);
      if (to && !box.hidden) chosen.done(from, to, area());
      from = null;
      box.hidden = true;
    });
    element.addEventListener("pointercancel", () => {
      from = null;
      box.hidden = true;
    });
  };

  // ------------------------------------------------------------------------------------------- lists, themes, print

  // One of several parts, chosen from a list.
  const chooser = (frame) => {
    const parts = [...frame.children];
    const show = (index) =>
      parts.forEach((part, i) => {
        part.hidden = i !== index;
      });
    const list = make(
      "select",
      { onchange: (event) => show(event.target.selectedIndex) },
      ...parts.map((part) => make("option", {}, part.dataset.choice)),
    );
    frame.prepend(make("div", { class: "tools" }, make("label", {}, `${frame.dataset.label} `, list)));
    show(0);
  };

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const themed = []; // what is drawn in resolved colours and must be drawn again with another theme
  const printed = []; // called with true before the page is printed, with false afterwards
  const setTheme = (theme) => {
    theme ? (document.documentElement.dataset.theme = theme) : delete document.documentElement.dataset.theme;
    themeChanged();
  };
  const themeChanged = () => {
    document.getElementById("theme").textContent = isDark() ? "Light colours" : "Dark colours"; // what it switches to
    for (const redraw of themed) redraw();
  };

  document.querySelectorAll(".choice").forEach(chooser);
  const toggle = document.getElementById("theme");
  toggle.hidden = false;
  toggle.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  dark.addEventListener("change", themeChanged);
  const PRINT_WIDTH = 656; // pixels, of a chart on A4
  let before;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    setTheme("light");
    for (const follow of printed) follow(true);
  });
  addEventListener("afterprint", () => {
    setTheme(before);
    for (const follow of printed) follow(false);
  });
  themeChanged();

  const zooming = { zoomGroup, zoomTo, zoomBy, panBy, reset, zoomTools, selectable };
  return { make, clean, announce, download, table, button, themed, printed, PRINT_WIDTH, ...zooming };
})();
