"use strict";
// Draws the charts of a page from their data (see charts.py), with legends that are buttons, zoom that is shared, and
// a table of the data behind each.  Colours are CSS variables throughout, so that themes and print need no redrawing.

const Shunter = (() => {
  const MINUTE = 60, HOUR = 3600, DAY = 86400;
  const DASHES = ["solid", [7, 3], [2, 2], [9, 3, 2, 3], [14, 4], [4, 2, 1, 2], [1, 3], [10, 2, 2, 2, 2, 2]];
  const COLOURS = 10;
  const PRINT_WIDTH = 620; // pixels, of a chart on A4

  // ------------------------------------------------------------------------------------------- numbers in words

  const number = (value) => {
    const size = Math.abs(value);
    if (size < 0.005) return "0";
    const digits = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };
  const unitOf = (seconds) =>
    seconds < MINUTE ? [1, "s"] : seconds < HOUR ? [MINUTE, "m"] : seconds < DAY ? [HOUR, "h"] : [DAY, "d"];
  const duration = (seconds) => {
    const [length, unit] = unitOf(Math.abs(seconds));
    return `${number(seconds / length)} ${unit}`;
  };
  const elapsed = (seconds) => {
    let rest = Math.round(Math.abs(seconds));
    const parts = [];
    for (const [length, unit] of [[DAY, "d"], [HOUR, "h"], [MINUTE, "m"], [1, "s"]]) {
      const whole = Math.floor(rest / length);
      rest -= whole * length;
      if (whole) parts.push(`${whole.toLocaleString("en")} ${unit}`);
    }
    return (seconds < 0 ? "-" : "") + (parts.slice(0, 3).join(" ") || "0");
  };
  const formats = {
    duration, elapsed, number,
    count: (value) => Math.round(value).toLocaleString("en"),
    share: (value) => `${(100 * value).toFixed(1)} %`,
  };
  const written = (unit, value) => (value === null || value === undefined ? "–" : formats[unit](value));

  // ------------------------------------------------------------------------------------------- ticks

  const niceStep = (span, most) => {
    const raw = span / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw * 0.999);
  };
  const TIME_STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY,
    2 * DAY, 3 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 180 * DAY, 365 * DAY];
  const timeStep = (span, most) => TIME_STEPS.find((step) => span / step <= most) || niceStep(span / DAY, most) * DAY;
  const multiples = (low, high, step) => {
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) ticks.push(i * step || 0);
    return ticks;
  };
  const LOG_TIMES = [0.001, 0.01, 0.1, 1, 10, MINUTE, 10 * MINUTE, HOUR, 10 * HOUR, DAY, 10 * DAY, 100 * DAY, 1000 * DAY];
  const powers = (low, high) => multiples(Math.log10(low), Math.log10(high), 1).map((power) => 10 ** power);

  // The scale of an axis: its range, its ticks, and their texts; log axes are drawn as log10 of their values.
  const scale = (axis, low, high, most) => {
    if (axis.log) {
      const all = axis.unit === "duration" ? LOG_TIMES : powers(low, high);
      let ticks = all.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
      while (ticks.length > most) ticks = ticks.filter((_, i) => i % 2 === 0);
      const plain = (tick) => (axis.unit === "duration" ? elapsed(tick) : tick.toLocaleString("en"));
      const label = (tick) => (axis.floor && tick <= low * 1.001 ? `≤ ${plain(tick)}` : plain(tick));
      return { min: Math.log10(low), max: Math.log10(high), ticks: ticks.map(Math.log10), label: (at) => label(+(10 ** at).toPrecision(6)) };
    }
    const span = high - low || 1;
    if (axis.unit === "elapsed")
      return { min: low, max: high, ticks: multiples(low, high, timeStep(span, most)), label: elapsed };
    const [length, unit] = axis.unit === "duration" ? unitOf(high) : [1, ""];
    const step = axis.unit === "count" ? Math.max(1, niceStep(span, most)) : niceStep(span / length, most) * length;
    const end = Math.min(axis.top ?? Infinity, Math.ceil(high / step - 1e-6) * step);
    const ticks = multiples(low, end, step);
    const short = (tick) => (axis.unit === "share" ? `${+(100 * tick).toPrecision(3)} %`
      : axis.unit === "duration" ? (tick ? `${+(tick / length).toPrecision(3)} ${unit}` : "0") : (+tick.toPrecision(6)).toLocaleString("en"));
    return { min: low, max: Math.max(end, low + 1e-9), ticks, label: short };
  };

  // ------------------------------------------------------------------------------------------- small DOM help

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes))
      key.startsWith("on") ? element.addEventListener(key.slice(2), value) : element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const clean = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const announce = (text) => { document.getElementById("announce").textContent = text; };
  const colour = (style) => `var(--s${style % COLOURS})`;
  const dash = (style) => DASHES[(style + Math.floor(style / COLOURS)) % DASHES.length];
  const swatch = (style, filled) => {
    const pattern = dash(style), stroke = pattern === "solid" ? "" : ` stroke-dasharray="${pattern}"`;
    return filled
      ? `<svg width="12" height="12" aria-hidden="true"><rect width="12" height="12" rx="2" fill="${colour(style)}"/></svg>`
      : `<svg width="28" height="8" aria-hidden="true"><path d="M0 4H28" stroke="${colour(style)}" stroke-width="3"${stroke}/></svg>`;
  };
  const table = (caption, headings, rows) => {
    const frame = make("div", { class: "table", role: "region", tabindex: "0", "aria-label": caption });
    const head = headings.map((text) => `<th scope="col">${clean(text)}</th>`).join("");
    const body = rows.map(([name, ...cells]) =>
      `<tr><th scope="row">${clean(name)}</th>${cells.map((cell) => `<td>${clean(cell)}</td>`).join("")}</tr>`).join("");
    frame.innerHTML = `<table><caption>${clean(caption)}</caption><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>`;
    return frame;
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
    const [begin, end] = group.full, least = (end - begin) * smallest;
    const span = Math.min(Math.max(high - low, least), end - begin);
    const from = Math.min(Math.max((low + high - span) / 2, begin), end - span);
    group.now = [from, from + span];
    for (const follow of group.followers) follow();
  };
  const zoomBy = (group, factor, at = 0.5) => {
    const [low, high] = group.now, centre = low + at * (high - low);
    zoomTo(group, centre - (centre - low) * factor, centre + (high - centre) * factor);
  };
  const panBy = (group, part) => {
    const [low, high] = group.now, move = part * (high - low);
    zoomTo(group, low + move, high + move);
  };
  const reset = (group) => zoomTo(group, ...group.full);
  const button = (text, label, act) => make("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const zoomTools = (group) => [
    button("+", "Zoom in", () => zoomBy(group, 0.5)),
    button("−", "Zoom out", () => zoomBy(group, 2)),
    button("←", "Earlier", () => panBy(group, -0.5)),
    button("→", "Later", () => panBy(group, 0.5)),
    button("Whole time", "Show the whole time", () => reset(group)),
  ];

  // Dragging with a mouse or pen selects a part; `area` gives the box in which that can be done.
  const selectable = (element, area, chosen) => {
    const box = make("div", { class: "selection", hidden: "" });
    element.append(box);
    let from = null;
    const place = (event) => {
      const frame = element.getBoundingClientRect(), { left, top, right, bottom } = area();
      const inside = (value, low, high) => Math.min(Math.max(value, low), high);
      return [inside(event.clientX - frame.left, left, right), inside(event.clientY - frame.top, top, bottom)];
    };
    const show = (to) => {
      box.hidden = Math.abs(to[0] - from[0]) < 4;
      box.style.cssText = `left:${Math.min(from[0], to[0])}px;width:${Math.abs(to[0] - from[0])}px;` + chosen.box(from, to, area());
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
    element.addEventListener("pointercancel", () => { from = null; box.hidden = true; });
  };

  // ------------------------------------------------------------------------------------------- charts

  const hidden = new Set(); // names of series that are switched off, on the whole page
  const figures = [];
  const extent = (lists) => {
    let low = Infinity, high = -Infinity;
    for (const list of lists) for (const value of list) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
    return low > high ? [0, 1] : [low, high];
  };
  const sums = (lists) => lists[0].map((_, i) => lists.reduce((sum, list) => sum + (list[i] || 0), 0));

  class Figure {
    constructor(element) {
      this.element = element;
      this.spec = JSON.parse(element.querySelector("script").textContent);
      this.plot = element.querySelector(".plot");
      element.querySelector("details").addEventListener("toggle", (event) => this.fillDetails(event.target));
      if (this.spec.kind === "heatmap") return this.drawHeat();
      this.controls = make("div", { class: "controls" }, this.legend());
      this.plot.before(this.controls, make("p", { class: "label y", "aria-hidden": "true" }, this.spec.y.label));
      this.plot.after(make("p", { class: "label x", "aria-hidden": "true" }, this.spec.x.label));
      this.inner = this.plot.appendChild(make("div", { style: "width:100%;height:100%" }));
      this.chart = echarts.init(this.inner, null, { renderer: "svg" });
      if (this.spec.zoom) this.follow();
      new ResizeObserver(() => { this.chart.resize({ width: "auto" }); this.draw(); }).observe(this.plot);
      this.draw();
      figures.push(this);
    }

    legend() {
      const list = make("ul", { class: "legend", "aria-label": "Shown in the charts" });
      if (this.spec.series.length < 2) return list;
      const filled = /bars|stacked/.test(this.spec.kind);
      for (const { name, style } of this.spec.series) {
        const toggle = make("button", { type: "button", "aria-pressed": "true", "data-series": name, onclick: () => switchSeries(name) });
        toggle.innerHTML = swatch(style, filled) + `<span>${clean(name)}</span>`;
        list.append(make("li", {}, toggle));
      }
      return list;
    }

    follow() {
      const { values, unit } = this.spec.x;
      this.zoom = zoomGroup(this.spec.zoom, unit === "elapsed" ? 0 : values[0], values.at(-1));
      this.zoom.followers.push(() => this.draw());
      this.controls.append(make("div", { class: "tools" }, ...zoomTools(this.zoom)));
      this.plot.classList.add("zooms");
      selectable(this.plot, () => ({ left: this.left, right: this.plot.clientWidth - this.right, top: 0, bottom: this.plot.clientHeight }), {
        box: (from, to, area) => `top:0;height:${area.bottom - this.bottom}px`,
        done: (from, to, area) => {
          const [low, high] = this.zoom.now, at = (x) => low + ((x - area.left) / (area.right - area.left)) * (high - low);
          zoomTo(this.zoom, ...[at(from[0]), at(to[0])].sort((a, b) => a - b));
        },
      });
      this.plot.addEventListener("dblclick", () => reset(this.zoom));
    }

    shown() { return this.spec.series.filter(({ name }) => !hidden.has(name)); }

    draw(width = this.plot.clientWidth) {
      if (!width) return;
      const { kind } = this.spec, names = this.spec.x.names;
      this.right = 18;
      this.bottom = names ? this.room(names, width) : 26;
      this.points = names || kind === "cdf" ? null : this.thinned(Math.max(width - 80, 60) / 5);
      const y = this.yScale();
      this.left = 10 + Math.max(...y.ticks.map((tick) => 7.2 * y.label(tick).length), 18);
      const x = names ? null : this.xScale((width - this.left - this.right) / 80);
      const series = this.shown().map((one) => this.drawn(one));
      this.chart.setOption({
        animation: false,
        textStyle: { fontFamily: "inherit" },
        grid: { left: this.left, right: this.right, top: 10, bottom: this.bottom, outerBoundsMode: "none" },
        xAxis: names ? this.names(names) : this.axis(x, kind === "cdf"),
        yAxis: this.axis(y, true),
        tooltip: this.tooltip(),
        series,
      }, { notMerge: true });
      this.inner.querySelector("svg").setAttribute("viewBox", `0 0 ${width} ${this.plot.clientHeight}`); // print scales it
    }

    // Names under bars are written level where they fit, slanting where they don't.
    room(names, width) {
      const longest = Math.min(Math.max(...names.map((name) => name.length)), 24);
      this.slant = longest * 7 > (width - 70) / names.length - 6;
      const below = this.slant ? 18 + longest * 4.4 : 26;
      this.plot.style.height = this.slant ? `calc(17rem + ${below - 26}px)` : "";
      return below;
    }

    names(names) {
      const label = { color: "var(--muted)", fontSize: 12, interval: 0, rotate: this.slant ? 40 : 0,
        formatter: (name) => (name.length > 24 ? name.slice(0, 23) + "…" : name) };
      return { type: "category", data: names, axisLine: { lineStyle: { color: "var(--line)" } }, axisTick: { show: false }, axisLabel: label };
    }

    axis(scale, lines) {
      const texts = { customValues: scale.ticks, formatter: scale.label, color: "var(--muted)", fontSize: 12, hideOverlap: true };
      return {
        type: "value", min: scale.min, max: scale.max, axisLabel: texts,
        axisTick: { show: !lines, customValues: scale.ticks, lineStyle: { color: "var(--line)" } },
        axisLine: { show: !lines, onZero: false, lineStyle: { color: "var(--line)" } },
        splitLine: { show: lines, lineStyle: { color: "var(--grid)" } },
      };
    }

    xScale(most) {
      const { x, kind, series } = this.spec;
      if (kind !== "cdf") return scale(x, ...(this.zoom ? this.zoom.now : extent([x.values])), most);
      const [low, high] = extent(series.map((one) => one.values));
      const floor = x.unit === "duration" ? 1 : x.log ? Math.max(low, 1e-3) : low;
      this.floor = x.log ? floor : -Infinity;
      return scale({ ...x, floor: low < floor }, x.log ? floor : Math.min(low, 0), Math.max(high, floor * 10), most);
    }

    yScale() {
      const { y, kind } = this.spec, lists = this.shown().map((one) => (this.points ? this.points.values.get(one.name) : one.values));
      if (kind === "cdf") return scale(y, 0, 1, 5);
      const [low, high] = extent(/stacked/.test(kind) && lists.length ? [sums(lists)] : lists);
      return scale(y, Math.min(low, 0), high || 1, 5);
    }

    // The part of the data that is in view, as means of so many neighbours that lines can be told apart.
    thinned(most) {
      const { x, series } = this.spec, [low, high] = this.zoom ? this.zoom.now : extent([x.values]), pace = x.values[1] - x.values[0] || 0;
      const from = Math.max(0, x.values.findIndex((value) => value >= low - pace)), after = x.values.findIndex((value) => value > high + pace);
      const to = after < 0 ? x.values.length : after, size = Math.max(1, Math.ceil((to - from) / most));
      const groups = [];
      for (let i = from - (from % size); i < to; i += size) groups.push(i);
      const mean = (values, i) => {
        const part = values.slice(i, i + size).filter((value) => value !== null);
        return part.length ? part.reduce((sum, value) => sum + value, 0) / part.length : null;
      };
      return { x: groups.map((i) => mean(x.values, i)), values: new Map(series.map((one) => [one.name, groups.map((i) => mean(one.values, i))])) };
    }

    drawn({ name, style, values }) {
      const { kind, x, y } = this.spec, flat = colour(style);
      if (/bars/.test(kind))
        return { type: "bar", name, data: values, itemStyle: { color: flat }, emphasis: { disabled: true }, barMaxWidth: 42,
          barGap: "8%", stack: kind === "bars" ? undefined : "all" };
      const at = (value) => (value === null ? null : x.log ? Math.log10(Math.max(value, this.floor)) : value);
      const begin = kind === "cdf" ? Math.max(0, values.findLastIndex((value) => value !== null && value <= this.floor)) : 0;
      const data = kind === "cdf" ? y.values.map((share, i) => [at(values[i]), share]).slice(begin)
        : this.points.x.map((value, i) => [value, this.points.values.get(name)[i]]);
      const area = kind === "stacked" ? { color: flat, opacity: 0.75 } : undefined;
      return { type: "line", name, data: kind === "cdf" ? data.filter((point) => point[0] !== null) : data,
        step: kind === "steps" ? "end" : false, stack: kind === "stacked" ? "all" : undefined, areaStyle: area,
        showSymbol: false, emphasis: { disabled: true }, itemStyle: { color: flat },
        lineStyle: { color: flat, width: area ? 0.5 : 2, type: area ? "solid" : dash(style) } };
    }

    tooltip() {
      const { kind, x, y } = this.spec, filled = /bars|stacked/.test(kind);
      const lines = (rows) => `<table>${rows.map(({ style, name }, i) => `<td>${swatch(style, filled)}${clean(name)}</td><td>${rows[i].text}</td>`)
        .map((row) => `<tr>${row}</tr>`).join("")}</table>`;
      const formatter = (points) => {
        const first = points[0], value = x.log ? 10 ** first.axisValue : first.axisValue;
        const rows = this.shown().map(({ name, style, values }) => ({ name, style, text: kind === "cdf"
          ? formats.share(y.values[values.reduce((best, one, i) => (one !== null && one <= value * 1.0001 ? i : best), -1)] || 0)
          : written(y.unit, (this.points ? this.points.values.get(name) : values)[first.dataIndex]) }));
        const head = x.names ? x.names[first.dataIndex] : kind === "cdf" ? `at most ${written(x.unit, value)}` : written(x.unit, this.points.x[first.dataIndex]);
        return `<div class="tip"><b>${clean(head)}</b>${lines(rows)}</div>`;
      };
      return { trigger: "axis", confine: true, transitionDuration: 0, formatter, padding: [6, 9], extraCssText: "box-shadow:0 2px 8px #0003",
        backgroundColor: "var(--card)", borderColor: "var(--line)",
        axisPointer: { type: /bars/.test(kind) ? "none" : "line", animation: false, lineStyle: { color: "var(--muted)", type: "solid" }, label: { show: false } } };
    }

    fillDetails(details) {
      if (!details.open || details.querySelector("table")) return;
      const { kind, x, y, series, rows, columns, cells, value } = this.spec, caption = this.element.dataset.title;
      if (kind === "heatmap")
        return details.append(table(caption, ["", ...columns], rows.map((row, i) => [row, ...cells[i].map((cell) => written(value.unit, cell))])));
      const axis = kind === "cdf" ? y : x, unit = kind === "cdf" ? x.unit : y.unit;
      const heads = (axis.names || axis.values).map((one) => (axis.names ? one : written(axis.unit, one)));
      const every = Math.ceil(heads.length / 200);
      const body = heads.map((head, i) => [head, ...series.map((one) => written(unit, one.values[i]))]);
      details.append(table(caption + (every > 1 ? `, every ${every}th value` : ""), [axis.label, ...series.map((one) => one.name)], body.filter((_, i) => i % every === 0)));
    }

    drawHeat() {
      const { rows, columns, cells, value } = this.spec, [, high] = extent(cells);
      const frame = make("div", { class: "heat" });
      const shade = (cell) => Math.round((100 * (cell || 0)) / (high || 1));
      const body = rows.map((row, i) => `<tr><th>${clean(row)}</th>${cells[i].map((cell, k) =>
        `<td title="${clean(`${row}, ${columns[k]}: ${written(value.unit, cell)}`)}" style="background:color-mix(in oklab, var(--heat) ${shade(cell)}%, var(--empty))"></td>`).join("")}</tr>`);
      frame.innerHTML = `<table><thead><tr><th></th>${columns.map((name) => `<th>${clean(name)}</th>`).join("")}</tr></thead><tbody>${body.join("")}</tbody></table>`;
      this.plot.style.height = "auto";
      this.plot.append(frame, make("p", { class: "scale" }, "0 ", make("i"), ` ${written(value.unit, high)} ${value.label}`));
    }
  }

  const switchSeries = (name) => {
    hidden.has(name) ? hidden.delete(name) : hidden.add(name);
    for (const toggle of document.querySelectorAll("button[data-series]"))
      if (toggle.dataset.series === name) toggle.setAttribute("aria-pressed", String(!hidden.has(name)));
    for (const figure of figures) if (figure.spec.series.some((one) => one.name === name)) figure.draw();
    announce(`${name} is ${hidden.has(name) ? "hidden" : "shown"}`);
  };

  // ------------------------------------------------------------------------------------------- light and dark

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const fit = (width) => figures.forEach((figure) => {
    if (!figure.plot.clientWidth) return;
    figure.chart.resize(width ? { width } : { width: "auto" });
    figure.draw(width);
  });
  const themed = []; // what draws in resolved colours, and must do so again
  const setTheme = (theme) => {
    theme ? (document.documentElement.dataset.theme = theme) : delete document.documentElement.dataset.theme;
    themeChanged();
  };
  const themeChanged = () => {
    document.getElementById("theme").setAttribute("aria-pressed", String(isDark()));
    for (const redraw of themed) redraw();
  };
  // One of several parts, chosen from a list.
  const chooser = (frame) => {
    const parts = [...frame.children];
    const show = (index) => parts.forEach((part, i) => { part.hidden = i !== index; });
    const list = make("select", { onchange: (event) => show(event.target.selectedIndex) }, ...parts.map((part) => make("option", {}, part.dataset.choice)));
    frame.prepend(make("div", { class: "tools" }, make("label", {}, `${frame.dataset.label} `, list)));
    show(0);
  };

  const begin = () => {
    document.querySelectorAll(".choice").forEach(chooser);
    for (const element of document.querySelectorAll("figure.chart")) new Figure(element);
    const theme = document.getElementById("theme");
    theme.hidden = false;
    theme.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
    dark.addEventListener("change", themeChanged);
    let before;
    addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme("light"); fit(PRINT_WIDTH); });
    addEventListener("afterprint", () => { setTheme(before); fit(); });
    themeChanged();
  };

  begin();
  return { formats, written, scale, make, clean, announce, zoomGroup, zoomTo, zoomBy, panBy, reset, zoomTools, selectable, themed, button };
})();
