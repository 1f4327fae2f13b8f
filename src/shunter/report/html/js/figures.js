"use strict";
// Draws the charts of a page from their data (see charts.py), with legends that are buttons, zoom that is shared, and
// a table of the data behind each.  Colours are CSS variables throughout, so that themes and print need no redrawing.

const Figures = (() => {
  const { formats, placed, written, scale } = Numbers;
  const { make, clean, announce, button, download, table, printed, PRINT_WIDTH } = Controls;
  const { zoomGroup, zoomTo, reset, zoomTools, selectable } = Controls;
  const DASHES = ["solid", [7, 3], [2, 2], [9, 3, 2, 3], [14, 4], [4, 2, 1, 2], [1, 3], [10, 2, 2, 2, 2, 2]];
  const COLOURS = 10;
  const LONGEST_NAME = 32; // letters, slanting under a bar
  const LETTER = 6.8; // px, about
  const NUDGES = [-9, 9, -22, 22]; // px: names of points are above or below the lines through them
  const MOST_ROWS = 200; // of the table behind a chart
  const FILLED = /bars|stacked|intervals|scatter|front/; // kinds whose series differ by colour alone

  const colour = (style, palette = "s") => `var(--${palette}${style % COLOURS})`;
  const dash = (style) => DASHES[(style + Math.floor(style / COLOURS)) % DASHES.length];
  const swatch = (style, filled, palette) => {
    const pattern = dash(style) === "solid" ? "" : ` stroke-dasharray="${dash(style)}"`;
    const [width, height, shape] = filled
      ? [12, 12, `<rect width="12" height="12" rx="2" fill="${colour(style, palette)}"/>`]
      : [28, 8, `<path d="M0 4H28" stroke="${colour(style, palette)}" stroke-width="3"${pattern}/>`];
    return `<svg width="${width}" height="${height}" aria-hidden="true">${shape}</svg>`;
  };
  const hidden = new Set(); // names of series that are switched off, on the whole page
  const figures = [];
  const extent = (lists) => {
    let low = Infinity,
      high = -Infinity;
    for (const list of lists)
      for (const value of list)
        if (value !== null) {
          low = Math.min(low, value);
          high = Math.max(high, value);
        }
    return low > high ? [0, 1] : [low, high];
  };
  const box = (x, y, wide, high) => ({ left: x - wide / 2, right: x + wide / 2, top: y - high / 2, bottom: y + high / 2 });
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const between = (one, i, unit) =>
    one.low && one.low[i] !== null ? ` (${written(unit, one.low[i])} to ${written(unit, one.high[i])})` : "";
  const sums = (lists) => lists[0].map((_, i) => lists.reduce((sum, list) => sum + (list[i] || 0), 0));

  class Figure {
    constructor(element) {
      this.element = element;
      this.spec = JSON.parse(element.querySelector("script").textContent);
      this.plot = element.querySelector(".plot");
      element.querySelector("details").addEventListener("toggle", (event) => this.fillDetails(event.target));
      this.controls = make("div", { class: "controls" }, this.legend());
      this.label = make("p", { class: "label y", "aria-hidden": "true" }, this.spec.y.label);
      this.plot.before(this.controls, this.label);
      this.plot.after(make("p", { class: "label x", "aria-hidden": "true" }, this.spec.x.label));
      this.inner = this.plot.appendChild(make("div", { style: "width:100%;height:100%" }));
      this.chart = echarts.init(this.inner, null, { renderer: "svg" });
      element.querySelector("details").after(this.saving());
      if (this.spec.zoom) this.follow();
      new ResizeObserver(() => this.draw()).observe(this.plot);
      this.draw();
      figures.push(this);
    }

    // Takes the data and the words of a later state of the same chart.
    grow(fresh) {
      const words = (root) => root.querySelector("figcaption p");
      this.spec = JSON.parse(fresh.querySelector("script").textContent);
      words(this.element).textContent = words(fresh).textContent;
      this.plot.setAttribute("aria-label", fresh.querySelector(".plot").getAttribute("aria-label"));
      const details = this.element.querySelector("details");
      details.querySelector("summary ~ *")?.remove();
      this.fillDetails(details);
      this.draw();
    }

    // Buttons that save the chart as it is drawn, and all its numbers.
    saving() {
      const name = this.element.dataset.title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
      const save = (kind, type, text) => button(kind, `Save this chart as ${kind}`, () => download(`${name}.${kind.toLowerCase()}`, type, text()));
      return make(
        "p",
        { class: "tools saving" },
        save("SVG", "image/svg+xml", () => this.svg()),
        save("CSV", "text/csv", () => this.csv()),
      );
    }

    // The drawing with its colours as they are now, since a file has no style sheet.
    svg() {
      const shown = this.inner.querySelector("svg").cloneNode(true);
      shown.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      const style = getComputedStyle(this.plot);
      const names = new Set(shown.outerHTML.match(/var\(--[a-z0-9]+\)/g));
      const probe = this.plot.appendChild(make("i", { hidden: "" }));
      let text = shown.outerHTML;
      for (const one of names) {
        probe.style.color = one;
        text = text.replaceAll(one, getComputedStyle(probe).color);
      }
      probe.remove();
      return text.replace(/font-family:\s*inherit/g, `font-family:${style.fontFamily.replaceAll('"', "'")}`);
    }

    // Every number of the chart, not rounded further than in the page.
    csv() {
      const { kind, x, y, series } = this.spec;
      const quoted = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
      const line = (cells) => cells.map((value) => quoted(value ?? "")).join(",");
      if (kind === "scatter") {
        const ends = (axis) => [axis.label, `${axis.label} low`, `${axis.label} high`];
        const rows = series.map((one) => [one.name, ...one.x, one.values[0], one.low[0], one.high[0]]);
        return [["policy", ...ends(x), ...ends(y)], ...rows].map(line).join("\n") + "\n";
      }
      if (kind === "front") {
        const rows = series.flatMap((one) => one.names.map((name, i) => [name, one.x[i], one.values[i], one.front[i]]));
        return [["policy", x.label, y.label, "on the front"], ...rows].map(line).join("\n") + "\n";
      }
      const axis = kind === "cdf" ? y : x;
      const columns = series.flatMap((one) => [
        [one.name, one.values],
        ...(one.low ? [[`${one.name} low`, one.low], [`${one.name} high`, one.high]] : []),
        ...(one.peaks ? [[`${one.name} most`, one.peaks]] : []),
      ]);
      const rows = (axis.names || axis.values).map((head, i) => [head, ...columns.map(([, values]) => values[i])]);
      return [[axis.label, ...columns.map(([name]) => name)], ...rows].map(line).join("\n") + "\n";
    }

    legend() {
      const list = make("ul", { class: "legend", "aria-label": "Shown in the charts" });
      if (this.spec.series.length < 2) return list;
      const filled = FILLED.test(this.spec.kind);
      for (const { name, style } of this.spec.series) {
        const toggle = make("button", {
          type: "button",
          "aria-pressed": "true",
          "data-series": name,
          onclick: () => switchSeries(name),
        });
        toggle.innerHTML = swatch(style, filled, this.spec.palette) + `<span>${clean(name)}</span>`;
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
      selectable(
        this.plot,
        () => ({ left: this.left, right: this.plot.clientWidth - this.right, top: 0, bottom: this.plot.clientHeight }),
        {
          box: (from, to, area) => `top:0;height:${area.bottom - this.bottom}px`,
          done: (from, to, area) => {
            const [low, high] = this.zoom.now,
              at = (x) => low + ((x - area.left) / (area.right - area.left)) * (high - low);
            zoomTo(this.zoom, ...[at(from[0]), at(to[0])].sort((a, b) => a - b));
          },
        },
      );
      this.plot.addEventListener("dblclick", () => reset(this.zoom));
    }

    shown() {
      return this.spec.series.filter(({ name }) => !hidden.has(name));
    }

    draw(width = this.plot.clientWidth) {
      if (!width) return;
      const { kind } = this.spec,
        names = this.spec.x.names;
      this.right = 18;
      this.bottom = names ? this.room(names, width) : 26;
      const height = this.plot.clientHeight;
      if (this.chart.getWidth() !== width || this.chart.getHeight() !== height) this.chart.resize({ width, height });
      this.points = names || /cdf|scatter|front/.test(kind) ? null : this.thinned(Math.max(width - 80, 60) / 5);
      if (this.points && this.spec.y.mean) this.label.textContent = this.meaning();
      const y = this.yScale();
      this.left = 10 + Math.max(...y.ticks.map((tick) => 7.2 * y.label(tick).length), 18);
      const x = names ? null : this.xScale((width - this.left - this.right) / 80);
      const top = kind === "front" ? 22 : 10;
      if (/scatter|front/.test(kind)) this.labels = this.beside(x, y, [this.left, width - this.right, top, height - this.bottom]);
      const series = this.shown().flatMap((one) => this.drawn(one));
      if (kind === "front") series.push(this.edge());
      this.chart.setOption(
        {
          animation: false,
          textStyle: { fontFamily: "inherit" },
          grid: { left: this.left, right: this.right, top, bottom: this.bottom, outerBoundsMode: "none" },
          xAxis: names ? this.names(names, width) : this.axis(x, /cdf|scatter|front/.test(kind), 11),
          yAxis: this.axis(y, true),
          tooltip: this.tooltip(),
          series,
        },
        { notMerge: true },
      );
      const view = `0 0 ${width} ${height}`;
      this.inner.querySelector("svg").setAttribute("viewBox", view); // so that print can scale it
    }

    // What the values stand for, which depends on the zoom.
    meaning() {
      const thin = this.spec.series.some((one) => one.peaks) ? "; thin lines: the most at once" : "";
      return `${this.spec.y.label}, means over ${formats.duration(this.points.span)}${thin}`;
    }

    // Names under bars are written level where they fit, slanting where they don't, and cut only if very long.
    room(names, width) {
      const longest = Math.max(...names.map((name) => name.length));
      this.slant = longest * 7 > (width - 70) / names.length - 6;
      const below = this.slant ? 18 + Math.min(longest, LONGEST_NAME) * 4.4 : 26;
      this.plot.style.height = this.slant ? `calc(17rem + ${below - 26}px)` : "";
      return below;
    }

    names(names, width) {
      const pitch = (width - this.left - this.right) / names.length;
      const room = (i) => Math.min(LONGEST_NAME, Math.floor((this.left + (i + 0.5) * pitch) / 5.5)); // to the left edge
      const cut = (name, i) => (this.slant && name.length > room(i) ? `${name.slice(0, room(i) - 1)}…` : name);
      const between = this.spec.kind === "intervals"; // points lie beside the middle of their group
      const label = {
        color: "var(--muted)",
        fontSize: 12,
        interval: 0,
        rotate: this.slant ? 40 : 0,
        formatter: (one, i) => (between ? cut(names[one], one) : cut(one, i)),
      };
      const groups = { min: -0.5, max: names.length - 0.5, splitLine: { show: false } };
      return {
        ...(between ? { type: "value", ...groups } : { type: "category", data: names }),
        axisLine: { lineStyle: { color: "var(--line)" } },
        axisTick: { show: false },
        axisLabel: between ? { ...label, customValues: names.map((_, i) => i) } : label,
      };
    }

    axis(scale, lines, margin = 8) {
      const texts = {
        margin,
        customValues: scale.ticks,
        formatter: scale.label,
        color: "var(--muted)",
        fontSize: 12,
        hideOverlap: true,
        alignMaxLabel: margin === 8 ? null : "right",
        showMaxLabel: true,
      };
      return {
        type: "value",
        min: scale.min,
        max: scale.max,
        axisLabel: texts,
        axisTick: { show: !lines, customValues: scale.ticks, lineStyle: { color: "var(--line)" } },
        axisLine: { show: !lines, onZero: false, lineStyle: { color: "var(--line)" } },
        splitLine: { show: lines, lineStyle: { color: "var(--grid)" } },
      };
    }

    xScale(most) {
      const { x, kind, series } = this.spec;
      if (/scatter|front/.test(kind)) return scale(x, 0, extent(this.shown().map((one) => one.x))[1] || 1, most);
      if (kind === "lines" && series.some((one) => one.low)) {
        const [low, high] = extent([x.values]),
          margin = 0.03 * (high - low);
        const { ticks, label } = scale(x, low, high, most);
        return { min: low - margin, max: high + margin, ticks, label };
      }
      if (kind !== "cdf") return scale(x, ...(this.zoom ? this.zoom.now : extent([x.values])), most);
      const [low, high] = extent(series.map((one) => one.values));
      const power = 10 ** Math.floor(Math.log10(Math.max(low, 1)));
      const floor = x.unit === "duration" ? power : x.log ? Math.max(low, 1e-3) : low;
      this.floor = x.log ? floor : -Infinity;
      return scale({ ...x, floor: low < floor }, x.log ? floor : Math.min(low, 0), Math.max(high, floor * 10), most);
    }

    yScale() {
      const { y, kind } = this.spec,
        of = (one) => (this.points ? this.points.peaks.get(one.name) || this.points.values.get(one.name) : one.values),
        lists = this.shown().map(of);
      if (kind === "cdf") return scale(y, 0, 1, 5);
      for (const one of this.shown()) if (one.high) lists.push(one.high);
      const [low, high] = extent(/stacked/.test(kind) && lists.length ? [sums(lists)] : lists);
      this.least = low / 1.5; // of a log axis
      if (kind === "front" && y.unit === "number") return scale(y, Math.max(low - 0.1 * (high - low), 0), high, 5);
      return y.log ? scale(y, this.least, high * 1.2, 6) : scale(y, Math.min(low, 0), high || 1, 5);
    }

    // The visible part of the data, as means of enough neighbours for lines to stay apart.
    thinned(most) {
      const { x, series } = this.spec,
        [low, high] = this.zoom ? this.zoom.now : extent([x.values]),
        pace = x.values[1] - x.values[0] || 0;
      const from = Math.max(
          0,
          x.values.findIndex((value) => value >= low - pace),
        ),
        after = x.values.findIndex((value) => value > high + pace);
      const to = after < 0 ? x.values.length : after,
        size = Math.max(1, Math.ceil((to - from) / most));
      const groups = [];
      for (let i = from - (from % size); i < to; i += size) groups.push(i);
      const known = (values, i) => values.slice(i, i + size).filter((value) => value !== null);
      const mean = (values, i) => {
        const part = known(values, i);
        return part.length ? part.reduce((sum, value) => sum + value, 0) / part.length : null;
      };
      const highest = (values, i) => (known(values, i).length ? Math.max(...known(values, i)) : null);
      const peaked = series.filter((one) => one.peaks);
      return {
        x: groups.map((i) => mean(x.values, i)),
        span: size * pace,
        peaks: new Map(peaked.map((one) => [one.name, groups.map((i) => highest(one.peaks, i))])),
        values: new Map(series.map((one) => [one.name, groups.map((i) => mean(one.values, i))])),
      };
    }

    // The points of a cumulative curve, from what the first tick stands for.
    curve(values) {
      const { x, y } = this.spec;
      const at = (value) => (x.log ? Math.log10(Math.max(value, this.floor)) : value);
      const begin = Math.max(
        values.findLastIndex((value) => value !== null && value <= this.floor),
        0,
      );
      const points = y.values.map((share, i) => [values[i], share]).slice(begin);
      return points.filter(([value]) => value !== null).map(([value, share]) => [at(value), share]);
    }

    // Points beside one another, each on the line of its interval.
    withIntervals({ name, style, values, low, high }, common) {
      const shown = this.shown(),
        pitch = Math.min(0.85 / shown.length, 0.16),
        aside = pitch * (shown.findIndex((one) => one.name === name) - (shown.length - 1) / 2);
      const { log } = this.spec.y,
        at = (value) => (log && value !== null ? Math.log10(Math.max(value, this.least)) : value);
      const line = { type: "line", silent: true, lineStyle: { color: colour(style), width: 2.5, opacity: 0.6 } };
      const ends = low.flatMap((_, i) => [
        [i + aside, at(low[i])],
        [i + aside, at(high[i])],
        [i + aside, null],
      ]);
      const points = values.map((value, i) => [i + aside, at(value)]);
      return [
        { ...common, type: "line", data: points, symbol: "circle", symbolSize: 9, lineStyle: { width: 0 }, z: 3 },
        { ...common, ...line, data: ends, showSymbol: false, connectNulls: false },
      ];
    }

    // The names of points, by name: to one side, nudged up or down where another name or point is in the way.  A name for
    // which there is no room is left to the legend.
    beside(x, y, [left, right, top, bottom]) {
      const scatter = this.spec.kind === "scatter",
        points = scatter ? this.shown().map((one) => ({ name: one.name, x: one.x[0], y: one.values[0] })) : this.best();
      const at = ({ x: across, y: up }) => [
        left + ((across - x.min) / (x.max - x.min)) * (right - left),
        bottom - ((up - y.min) / (y.max - y.min)) * (bottom - top),
      ];
      const taken = points.map((point) => box(...at(point), 12, 12)),
        found = new Map();
      for (const point of points) {
        const [across, up] = at(point),
          text = point.name.length > LONGEST_NAME ? `${point.name.slice(0, LONGEST_NAME - 1)}…` : point.name,
          wide = LETTER * text.length,
          sides = across > left + 0.6 * (right - left) ? ["left", "right"] : ["right", "left"];
        const room = NUDGES.flatMap((nudge) => sides.map((position) => ({ position, nudge }))).find(({ position, nudge }) => {
          const one = box(across + (position === "right" ? 1 : -1) * (11 + wide / 2), up + nudge, wide, 13);
          const inside = one.left >= left && one.right <= right + this.right && one.top >= top - 6 && one.bottom <= bottom;
          return inside && !taken.some((other) => meet(one, other)) && taken.push(one);
        });
        if (!room) continue;
        const { position, nudge } = room;
        found.set(point.name, { show: true, formatter: () => text, position, offset: [0, nudge], color: "var(--ink)", fontSize: 12 });
      }
      return found;
    }

    // The points that no other beats, from left to right.
    best() {
      const all = this.shown().flatMap((one) =>
        one.names.map((name, i) => ({ name, x: one.x[i], y: one.values[i], front: one.front[i] })),
      );
      return all.filter((point) => point.front).sort((a, b) => a.x - b.x || a.y - b.y);
    }

    // The line through them.
    edge() {
      const line = { color: "var(--muted)", width: 1.5, type: [5, 4] };
      return { type: "line", silent: true, showSymbol: false, lineStyle: line, data: this.best().map(({ x, y }) => [x, y]), z: 1 };
    }

    // Points of one series; those on the front are larger, and named where there is room.
    dotted({ style, values, x, names, front }, common) {
      const data = x.map((at, i) => ({
        value: [at, values[i]],
        symbolSize: front[i] ? 11 : 7,
        itemStyle: { color: colour(style), opacity: front[i] ? 1 : 0.6 },
        label: (front[i] && this.labels.get(names[i])) || { show: false },
      }));
      return { ...common, type: "line", data, symbol: "circle", lineStyle: { width: 0 }, z: 3 };
    }

    // A point with its name and a cross of two intervals.
    crossed({ name, style, values, x, low, high }, common) {
      const line = { type: "line", silent: true, lineStyle: { color: colour(style), width: 2, opacity: 0.55 } };
      const ends = [
        [x[1], values[0]],
        [x[2], values[0]],
        [x[0], null],
        [x[0], low[0]],
        [x[0], high[0]],
      ].map(([a, b]) => (a === null ? [x[0], null] : [a, b]));
      const label = this.labels.get(name) || { show: false };
      return [
        { ...common, label, type: "line", data: [[x[0], values[0]]], symbol: "circle", symbolSize: 11, lineStyle: { width: 0 }, z: 3 },
        { ...common, ...line, data: ends, showSymbol: false, connectNulls: false },
      ];
    }

    drawn(one) {
      const { name, style, values, peaks } = one,
        { kind, palette } = this.spec;
      const stack = /stacked/.test(kind) ? "all" : undefined;
      const common = { name, stack, itemStyle: { color: colour(style, palette) }, emphasis: { disabled: true } };
      if (kind === "intervals") return this.withIntervals(one, common);
      if (kind === "scatter") return this.crossed(one, common);
      if (kind === "front") return this.dotted(one, common);
      if (/bars/.test(kind)) return { ...common, type: "bar", data: values, barMaxWidth: 42, barGap: "8%" };
      const line = { color: colour(style, palette), width: 2, type: dash(style) };
      const height = (value) => (this.spec.y.log && value !== null ? Math.log10(Math.max(value, this.least)) : value);
      const placed = (list) => list.map((y, i) => [this.points.x[i], height(y)]);
      const main = {
        ...common,
        type: "line",
        data: kind === "cdf" ? this.curve(values) : placed(this.points.values.get(name)),
        step: kind === "steps" ? "end" : false,
        areaStyle: stack && { color: colour(style, palette), opacity: 0.75 },
        showSymbol: false,
        lineStyle: stack ? { ...line, width: 0.5, type: "solid" } : line,
      };
      if (one.low) {
        const [first, last] = extent([this.spec.x.values]),
          shown = this.shown(),
          order = shown.indexOf(one) - (shown.length - 1) / 2,
          aside = (0.04 * (last - first) * order) / shown.length; // bars beside one another
        const x = this.spec.x.values.map((at) => at + aside),
          thick = { type: "line", silent: true, showSymbol: false, connectNulls: false },
          ends = x.flatMap((at, i) => [[at, height(one.low[i])], [at, height(one.high[i])], [at, null]]);
        const data = main.data.map(([at, y]) => [at + aside, y]);
        const marked = { ...main, data, showSymbol: true, symbol: "circle", symbolSize: 7 };
        return [marked, { ...thick, data: ends, lineStyle: { color: colour(style), width: 2.5, opacity: 0.5 } }];
      }
      if (!peaks) return [main];
      const thin = { color: colour(style), width: 1, opacity: 0.45 };
      return [main, { ...main, data: placed(this.points.peaks.get(name)), lineStyle: thin, silent: true }];
    }

    // The texts for a place along x: its name, and each series' value there.
    texts({ axisValue, dataIndex }) {
      const { kind, x, y } = this.spec;
      if (kind === "cdf") {
        const value = x.log ? 10 ** axisValue : axisValue;
        const share = (values) => y.values[values.findLastIndex((one) => one !== null && one <= value * 1.0001)] || 0;
        return [`at most ${written(x.unit, value)}`, ({ values }) => formats.share(share(values))];
      }
      const head = x.names ? x.names[dataIndex] : placed(x, this.points.x[dataIndex]);
      const values = (one) => (this.points ? this.points.values.get(one.name) : one.values);
      const most = (one) => (one.peaks ? `, up to ${written(y.unit, this.points.peaks.get(one.name)[dataIndex])}` : "");
      return [head, (one) => written(y.unit, values(one)[dataIndex]) + most(one) + between(one, dataIndex, y.unit)];
    }

    tooltip() {
      const { kind } = this.spec;
      const both = (one) => [
        [this.spec.x, one.x[0], one.x[1], one.x[2]],
        [this.spec.y, one.values[0], one.low[0], one.high[0]],
      ];
      const facts = (one) =>
        both(one)
          .map(([axis, value, low, high]) => {
            const ends = low === null ? "" : ` (${written(axis.unit, low)} to ${written(axis.unit, high)})`;
            return `<tr><td>${clean(axis.label)}</td><td>${written(axis.unit, value)}${ends}</td></tr>`;
          })
          .join("");
      const about = ({ seriesName, dataIndex: i }) => {
        const series = this.spec.series.find(({ name }) => name === seriesName);
        const alone = (value) => [value, null, null];
        const one =
          kind === "front" ? { name: series.names[i], x: alone(series.x[i]), values: [series.values[i]], low: [null], high: [null] } : series;
        return `<div class="tip"><b>${clean(one.name)}</b><table>${facts(one)}</table></div>`;
      };
      const formatter = (points) => {
        if (/scatter|front/.test(kind)) return about(points);
        const [point] = points;
        const [head, text] = this.texts(point);
        const mark = (one) => swatch(one.style, FILLED.test(kind), this.spec.palette) + clean(one.name);
        const rows = this.shown().map((one) => `<tr><td>${mark(one)}</td><td>${text(one)}</td></tr>`);
        return `<div class="tip"><b>${clean(head)}</b><table>${rows.join("")}</table></div>`;
      };
      const line = { color: "var(--muted)", type: "solid" };
      const pointer = { type: /bars|intervals/.test(kind) ? "none" : "line", animation: false, lineStyle: line };
      return {
        trigger: /scatter|front/.test(kind) ? "item" : "axis",
        confine: true,
        transitionDuration: 0,
        formatter,
        padding: [6, 9],
        extraCssText: "box-shadow:0 2px 8px #0003",
        backgroundColor: "var(--card)",
        borderColor: "var(--line)",
        axisPointer: { ...pointer, label: { show: false } },
      };
    }

    fillDetails(details) {
      if (!details.open || details.querySelector("table")) return;
      const { kind, x, y, series } = this.spec;
      const caption = this.element.dataset.title;
      if (kind === "scatter") {
        const ends = (unit, value, low, high) => written(unit, value) + between({ low: [low], high: [high] }, 0, unit);
        const rows = series.map((one) => [
          one.name,
          ends(x.unit, ...one.x),
          ends(y.unit, one.values[0], one.low[0], one.high[0]),
        ]);
        details.append(table(caption, ["policy", x.label, y.label], rows));
        return;
      }
      if (kind === "front") {
        const rows = series.flatMap((one) =>
          one.names.map((name, i) => [name, written(x.unit, one.x[i]), written(y.unit, one.values[i]), one.front[i] ? "yes" : ""]),
        );
        details.append(table(caption, ["policy", x.label, y.label, "on the front"], rows));
        return;
      }
      const [axis, unit] = kind === "cdf" ? [y, x.unit] : [x, y.unit];
      const heads = axis.names || axis.values.map((one) => placed(axis, one));
      const most = (one, i) => (one.peaks && one.peaks[i] !== null ? `, up to ${written(unit, one.peaks[i])}` : "");
      const cell = (one, i) => written(unit, one.values[i]) + most(one, i) + between(one, i, unit);
      const body = heads.map((head, i) => [head, ...series.map((one) => cell(one, i))]);
      const every = Math.ceil(heads.length / MOST_ROWS);
      const title = caption + (every > 1 ? `, one of ${every} values` : "");
      const headings = [axis.label, ...series.map((one) => one.name)];
      details.append(
        table(
          title,
          headings,
          body.filter((_, i) => i % every === 0),
        ),
      );
    }
  }

  const switchSeries = (name) => {
    hidden.has(name) ? hidden.delete(name) : hidden.add(name);
    for (const toggle of document.querySelectorAll("button[data-series]"))
      if (toggle.dataset.series === name) toggle.setAttribute("aria-pressed", String(!hidden.has(name)));
    for (const figure of figures) if (figure.spec.series.some((one) => one.name === name)) figure.draw();
    announce(`${name} is ${hidden.has(name) ? "hidden" : "shown"}`);
  };

  printed.push((before) => {
    for (const figure of figures)
      if (figure.plot.clientWidth) figure.draw(before ? PRINT_WIDTH : undefined);
  });
  // Draws what is new under an element, and forgets charts that are no longer in the page.
  const drawIn = (root) => {
    for (const gone of figures.filter(({ element }) => !element.isConnected)) {
      gone.chart.dispose();
      figures.splice(figures.indexOf(gone), 1);
    }
    for (const element of root.querySelectorAll("figure.chart:not([data-drawn])")) {
      element.dataset.drawn = "";
      new Figure(element);
    }
  };
  // The same chart with more data.
  const grow = (element, fresh) => figures.find((one) => one.element === element)?.grow(fresh);
  drawIn(document);
  return { drawIn, grow };
})();
