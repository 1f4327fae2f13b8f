"use strict";
// The node timeline on a canvas: from far a map of how busy nodes are, from near every stay of a job as a bar.

(() => {
  const { written, formats, scale, make, clean, announce, zoomGroup, zoomTo, zoomBy, panBy, reset, zoomTools, selectable, themed, button } = Shunter;
  const LEFT = 52, BOTTOM = 24, TOP = 4, RIGHT = 8;
  const NEAR = 10; // pixels per node from which single jobs are drawn
  const MOST_BARS = 6000; // more than this at once are a map again

  // ------------------------------------------------------------------------------------------- unpacking

  const inflate = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  const columns = async (text) => {
    const bytes = await inflate(text), end = bytes.indexOf(0), found = {};
    let at = end + 1;
    for (const [name, count] of Object.entries(JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))))) {
      const values = (found[name] = new Uint32Array(count));
      for (let plane = 0; plane < 4; plane++, at += count)
        for (let i = 0; i < count; i++) values[i] |= bytes[at + i] << (8 * plane);
    }
    return found;
  };
  // Stays by node: those of node n are first[n] to first[n + 1]; times in units.
  const stays = async (text, nodes) => {
    const { counts, delta, length, amount, job } = await columns(text);
    const first = new Uint32Array(nodes + 1), start = delta;
    for (let node = 0; node < nodes; node++) {
      first[node + 1] = first[node] + counts[node];
      for (let i = first[node] + 1; i < first[node + 1]; i++) start[i] += start[i - 1];
    }
    return { first, start, length, amount, job, lanes: new Map() };
  };

  // ------------------------------------------------------------------------------------------- the figure

  class Timeline {
    constructor(figure) {
      this.data = JSON.parse(figure.querySelector("script").textContent);
      this.gpus = this.data.groups.flatMap(([count, gpus]) => Array(count).fill(gpus));
      this.nodes = this.gpus.length;
      this.rows = [0, this.nodes];
      this.zoom = zoomGroup(this.data.zoom, 0, this.data.span);
      this.stage = figure.querySelector(".stage");
      this.canvas = make("canvas", { tabindex: "0", role: "img", "aria-label":
        "Nodes over time. Arrow keys move, plus and minus zoom, 0 shows all. The data are in the table below; single jobs are found by their id above." });
      this.tip = make("div", { class: "tip", hidden: "" });
      this.stage.before(this.tools());
      this.stage.append(this.canvas, this.tip);
      this.stage.after(this.foot());
      this.listen();
      reset(this.zoom);
      this.choose(0);
    }

    tools() {
      const picker = make("select", { onchange: (event) => this.choose(event.target.selectedIndex) },
        ...this.data.runs.map(({ name }) => make("option", {}, name)));
      const policy = make("label", {}, "Policy ", picker);
      const nodes = [
        button("Fewer nodes", "Show fewer nodes", () => this.zoomRows(0.5)),
        button("More nodes", "Show more nodes", () => this.zoomRows(2)),
        button("↑", "Nodes above", () => this.panRows(-0.5)),
        button("↓", "Nodes below", () => this.panRows(0.5)),
        button("All", "Show all nodes and the whole time", () => this.all()),
      ];
      const row = make("div", { class: "tools" }, ...(this.data.runs.length > 1 ? [policy] : []), ...zoomTools(this.zoom), ...nodes);
      if (!this.data.jobs) return row;
      const input = make("input", { type: "search", name: "job", autocomplete: "off", spellcheck: "false" });
      row.append(make("form", { class: "tools", role: "search", onsubmit: (event) => { event.preventDefault(); this.find(input.value.trim()); } },
        make("label", {}, this.data.jobs.names ? "Job id " : "Job number ", input), make("button", { type: "submit" }, "Find")));
      return row;
    }

    foot() {
      this.said = make("p", { class: "note" });
      this.key = make("p", { class: "scale" }, "0 % ", make("i"), " 100 % of the GPUs in use");
      return make("div", {}, this.key, this.said);
    }

    listen() {
      const area = () => ({ left: LEFT, right: this.canvas.clientWidth - RIGHT, top: TOP, bottom: this.canvas.clientHeight - BOTTOM });
      selectable(this.stage, area, {
        box: (from, to) => `top:${Math.min(from[1], to[1])}px;height:${Math.abs(to[1] - from[1])}px`,
        done: (from, to) => {
          const [a, b] = [this.at(...from), this.at(...to)];
          if (Math.abs(from[1] - to[1]) > 6) this.setRows(Math.min(a.node, b.node), Math.max(a.node, b.node) + 1);
          zoomTo(this.zoom, Math.min(a.time, b.time), Math.max(a.time, b.time));
        },
      });
      this.stage.addEventListener("dblclick", () => this.all());
      this.stage.addEventListener("pointermove", (event) => this.point(event));
      this.stage.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      this.canvas.addEventListener("keydown", (event) => this.press(event));
      this.zoom.followers.push(() => this.draw());
      themed.push(() => this.draw());
      new ResizeObserver(() => this.draw()).observe(this.canvas);
    }

    press(event) {
      const acts = { ArrowLeft: () => panBy(this.zoom, -0.25), ArrowRight: () => panBy(this.zoom, 0.25),
        ArrowUp: () => this.panRows(-0.25), ArrowDown: () => this.panRows(0.25), 0: () => this.all(),
        "+": () => this.closer(0.5), "=": () => this.closer(0.5), "-": () => this.closer(2) };
      if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
    }

    closer(factor) { this.setRows(...this.scaled(factor)); zoomBy(this.zoom, factor); }
    all() { this.found = null; this.rows = [0, this.nodes]; reset(this.zoom); }
    scaled(factor) {
      const [low, high] = this.rows, half = ((high - low) / 2) * factor, middle = (low + high) / 2;
      return [middle - half, middle + half];
    }
    zoomRows(factor) { this.setRows(...this.scaled(factor)); this.draw(); }
    panRows(part) {
      const [low, high] = this.rows, move = Math.sign(part) * Math.max(1, Math.round(Math.abs(part) * (high - low)));
      this.setRows(low + move, high + move);
      this.draw();
    }
    setRows(low, high) {
      const count = Math.min(Math.max(Math.round(high - low), 1), this.nodes);
      const from = Math.min(Math.max(Math.round((low + high - count) / 2), 0), this.nodes - count);
      this.rows = [from, from + count];
    }

    async choose(index) {
      const run = (this.run = this.data.runs[index]);
      if (run.stays && !run.held) run.held = await stays(run.stays, this.nodes);
      if (run.grid && !run.cells) run.cells = await inflate(run.grid);
      if (this.data.jobs && !this.jobs) {
        const { names, users, columns: packed } = this.data.jobs;
        this.jobs = { ...(await columns(packed)), users };
        this.jobs.count = this.jobs.submit.length;
        this.jobs.names = names ? JSON.parse(new TextDecoder().decode(await inflate(names))) : Array.from(this.jobs.submit, (_, row) => String(row + 1));
      }
      this.canvas.dataset.ready = run.name;
      this.draw();
    }

    // ----------------------------------------------------------------------------------------- where things are

    size() { return [this.canvas.clientWidth - LEFT - RIGHT, this.canvas.clientHeight - TOP - BOTTOM]; }
    at(x, y) {
      const [width, height] = this.size(), [low, high] = this.zoom.now, [top, bottom] = this.rows;
      const node = Math.floor(top + ((y - TOP) / height) * (bottom - top));
      return { time: low + ((x - LEFT) / width) * (high - low), node: Math.min(Math.max(node, top), bottom - 1) };
    }
    visible(node, low, high) { // the stays of a node in a span of units
      const { first, start, length } = this.run.held, found = [];
      for (let i = first[node]; i < first[node + 1] && start[i] <= high; i++) if (start[i] + length[i] >= low) found.push(i);
      return found;
    }

    // ----------------------------------------------------------------------------------------- drawing

    draw() {
      const width = this.canvas.clientWidth, height = this.canvas.clientHeight, ratio = devicePixelRatio || 1;
      if (!width || !this.run || (!this.run.held && !this.run.cells)) return;
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
      const paint = this.canvas.getContext("2d");
      paint.scale(ratio, ratio);
      this.colours = this.resolve();
      const [wide, high] = this.size();
      paint.fillStyle = this.colours.empty;
      paint.fillRect(LEFT, TOP, wide, high);
      const bars = this.near();
      this.close = Boolean(bars);
      this.key.hidden = this.close;
      bars ? this.drawBars(paint, bars) : this.drawMap(paint);
      if (this.found !== null && this.found !== undefined && this.run.held) this.mark(paint);
      this.drawAxes(paint);
      this.say();
    }

    resolve() {
      const probe = this.stage.appendChild(make("i"));
      const found = {};
      for (const name of ["empty", "heat", "ink", "muted", "line", "page", "down", "focus", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"]) {
        probe.style.color = `var(--${name})`;
        found[name] = getComputedStyle(probe).color;
      }
      probe.remove();
      return found;
    }

    // The stays to draw one by one, or null where a map says more.
    near() {
      const [top, bottom] = this.rows, [, high] = this.size(), [from, to] = this.zoom.now.map((time) => time / this.data.unit);
      if (!this.run.held || high / (bottom - top) < NEAR) return null;
      const found = [];
      for (let node = top; node < bottom; node++) {
        found.push(this.visible(node, from, to));
        if (found.reduce((sum, list) => sum + list.length, 0) > MOST_BARS) return null;
      }
      return found;
    }

    drawMap(paint) {
      const [wide, high] = this.size(), [top, bottom] = this.rows;
      const rows = Math.min(bottom - top, Math.max(1, Math.floor(high / 2))), bins = Math.max(1, Math.floor(wide / 2));
      const { values, width, height, box } = this.run.held ? { values: this.occupancy(rows, bins), width: bins, height: rows, box: [0, 0, bins, rows] } : this.cutGrid();
      const image = new ImageData(width, height), [low, full] = [this.colours.empty, this.colours.heat].map((text) => text.match(/[\d.]+/g).map(Number));
      for (let i = 0; i < values.length; i++) {
        const share = Math.min(1, values[i]);
        for (let k = 0; k < 3; k++) image.data[4 * i + k] = low[k] + (full[k] - low[k]) * share;
        image.data[4 * i + 3] = 255;
      }
      const buffer = make("canvas");
      [buffer.width, buffer.height] = [width, height];
      buffer.getContext("2d").putImageData(image, 0, 0);
      paint.imageSmoothingEnabled = false;
      paint.drawImage(buffer, ...box, LEFT, TOP, wide, high);
    }

    cutGrid() {
      const { cells, rows, bins, levels } = this.run, [low, high] = this.zoom.now, [top, bottom] = this.rows, { span } = this.data;
      if (!this.run.shares) this.run.shares = Float32Array.from(cells, (level) => level / levels);
      const box = [(low / span) * bins, (top / this.nodes) * rows, ((high - low) / span) * bins, ((bottom - top) / this.nodes) * rows];
      return { values: this.run.shares, width: bins, height: rows, box };
    }

    // Share of the GPUs in use per group of visible nodes and slice of visible time: each stay adds where it begins
    // and takes away where it ends, and sums along the row give what is held.
    occupancy(rows, bins) {
      const { first, start, length, amount } = this.run.held, [top, bottom] = this.rows;
      const [low, high] = this.zoom.now.map((time) => time / this.data.unit), wide = bins + 2;
      const edges = new Float64Array(rows * wide), room = new Float64Array(rows);
      const edge = (row, time, weight) => {
        const at = Math.min(Math.max(((time - low) / (high - low)) * bins, 0), bins), slot = Math.floor(at), rest = slot + 1 - at;
        edges[row * wide + slot] += rest * weight;
        edges[row * wide + slot + 1] += (1 - rest) * weight;
      };
      for (let node = top; node < bottom; node++) {
        const row = Math.floor(((node - top) * rows) / (bottom - top));
        room[row] += this.gpus[node] * 1000;
        for (let i = first[node]; i < first[node + 1] && start[i] < high; i++) {
          if (start[i] + length[i] <= low) continue;
          edge(row, start[i], amount[i]);
          edge(row, start[i] + length[i], -amount[i]);
        }
      }
      const shares = new Float32Array(rows * bins);
      for (let row = 0; row < rows; row++)
        for (let bin = 0, held = 0; bin < bins; bin++) shares[row * bins + bin] = (held += edges[row * wide + bin]) / room[row];
      return shares;
    }

    // Places of a node's stays beside each other: [from, to] in thousandths of GPUs, several where there is no one gap.
    lanes(node) {
      const { first, start, length, amount, lanes } = this.run.held;
      if (lanes.has(node)) return lanes.get(node);
      const places = new Map();
      let running = [];
      for (let i = first[node]; i < first[node + 1]; i++) {
        running = running.filter((k) => start[k] + length[k] > start[i]);
        places.set(i, this.gaps(running.flatMap((k) => places.get(k)).sort((a, b) => a[0] - b[0]), amount[i], this.gpus[node] * 1000));
        running.push(i);
      }
      lanes.set(node, places);
      return places;
    }
    gaps(taken, need, room) {
      const free = [];
      let at = 0;
      for (const [from, to] of taken) { if (from > at) free.push([at, from]); at = Math.max(at, to); }
      if (at < room) free.push([at, room]);
      const whole = free.find(([from, to]) => to - from >= need);
      if (whole) return [[whole[0], whole[0] + need]];
      const parts = [];
      for (const [from, to] of free) {
        const part = Math.min(to - from, need);
        if (part > 0) parts.push([from, from + part]);
        need -= part;
      }
      return parts.length ? parts : [[0, Math.min(need, room)]]; // jobs that share GPUs may hold more than there is
    }

    boxes(node, i) { // the rectangles of a stay
      const [wide, high] = this.size(), [low, to] = this.zoom.now, [top, bottom] = this.rows, { start, length, job } = this.run.held;
      const row = high / (bottom - top), pad = Math.min(2, row * 0.08), y = TOP + (node - top) * row;
      const x = (time) => LEFT + Math.min(Math.max((time * this.data.unit - low) / (to - low), 0), 1) * wide;
      const from = x(start[i]), end = Math.max(x(start[i] + length[i]), from + 1), room = this.gpus[node] * 1000;
      const places = job[i] >= this.jobs.count ? [[0, room]] : this.lanes(node).get(i);
      return places.map(([a, b]) => [from, y + pad + (a / room) * (row - 2 * pad), end - from, Math.max(((b - a) / room) * (row - 2 * pad), 1)]);
    }

    drawBars(paint, bars) {
      const [top] = this.rows, { job } = this.run.held;
      paint.font = "11px system-ui, sans-serif";
      paint.textBaseline = "middle";
      bars.forEach((list, k) => list.forEach((i) => {
        const down = job[i] >= this.jobs.count;
        for (const [x, y, w, h] of this.boxes(top + k, i)) {
          paint.fillStyle = down ? this.colours.down : this.colours[`s${this.jobs.user[job[i]] ? this.jobs.user[job[i]] % 8 : job[i] % 8}`];
          paint.globalAlpha = down ? 0.35 : 0.85;
          paint.fillRect(x, y, Math.max(w - 0.7, 0.7), Math.max(h - 0.7, 0.7));
          paint.globalAlpha = 1;
          const text = down ? "down" : this.jobs.names[job[i]];
          if (h >= 12 && w > 8 + paint.measureText(text).width) {
            paint.fillStyle = down ? this.colours.ink : this.colours.page;
            paint.fillText(text, x + 4, y + h / 2);
          }
        }
      }));
      this.drawRows(paint);
    }

    drawRows(paint) {
      const [wide, high] = this.size(), [top, bottom] = this.rows;
      paint.fillStyle = this.colours.line;
      for (let node = top + 1; node < bottom; node++) paint.fillRect(LEFT, Math.round(TOP + ((node - top) * high) / (bottom - top)), wide, 1);
    }

    mark(paint) { // a frame around the stays of the job that was looked for
      const { first, job } = this.run.held, [top, bottom] = this.rows;
      const boxes = [];
      for (let node = top; node < bottom; node++)
        for (let i = first[node]; i < first[node + 1]; i++) if (job[i] === this.found) boxes.push(...this.boxes(node, i));
      for (const [colour, width] of [[this.colours.page, 5], [this.colours.ink, 2.5]]) {
        [paint.strokeStyle, paint.lineWidth] = [colour, width];
        for (const [x, y, w, h] of boxes) paint.strokeRect(x, y, w, h);
      }
    }

    drawAxes(paint) {
      const [wide, high] = this.size(), [low, to] = this.zoom.now, [top, bottom] = this.rows;
      const times = scale({ unit: "elapsed" }, low, to, wide / 100);
      paint.font = "12px system-ui, sans-serif";
      paint.fillStyle = this.colours.muted;
      paint.textBaseline = "top";
      times.ticks.forEach((tick) => {
        const x = LEFT + ((tick - low) / (to - low)) * wide, half = paint.measureText(times.label(tick)).width / 2;
        paint.fillRect(x, TOP + high, 1, 4);
        paint.fillText(times.label(tick), Math.min(Math.max(x - half, 0), LEFT + wide + RIGHT - 2 * half), TOP + high + 8);
      });
      paint.textBaseline = "middle";
      paint.textAlign = "right";
      scale({ unit: "count" }, top, bottom - 1, Math.max(1, Math.min(high / 30, bottom - top))).ticks.filter((node) => node < bottom).forEach((node) =>
        paint.fillText(node.toLocaleString("en"), LEFT - 6, Math.max(TOP + 6, TOP + ((node - top + 0.5) * high) / (bottom - top))));
      paint.textAlign = "left";
    }

    say() {
      const [top, bottom] = this.rows, [low, high] = this.zoom.now;
      const what = this.close ? "Every bar is a job; colours tell users apart, and where in a node a bar lies has no meaning."
        : this.run.grid ? `Single jobs are not in this page for ${this.run.name}: there are too many. It has means over ${formats.duration(this.data.span / this.run.bins)} and ${Math.ceil(this.nodes / this.run.rows)} nodes.`
        : "Zoom in on nodes and time to see single jobs.";
      const which = bottom - top === 1 ? `Node ${top}` : `Nodes ${top} to ${bottom - 1}`;
      this.said.textContent = `${which}, ${formats.elapsed(low)} to ${formats.elapsed(high)}. ${what}`;
    }

    // ----------------------------------------------------------------------------------------- one job, one place

    job(i) {
      const { start, length, job, amount } = this.run.held, { unit } = this.data, row = job[i];
      if (row >= this.jobs.count) return ["Node down or asleep", [["from", formats.elapsed(start[i] * unit)], ["to", formats.elapsed((start[i] + length[i]) * unit)]]];
      const user = this.jobs.users[this.jobs.user[row]];
      return [`Job ${this.jobs.names[row]}`, [
        ...(user ? [["user", user]] : []),
        ["GPUs", formats.number(this.jobs.gpus[row] / 1000).replace(/\.0+$/, "") + (amount[i] < this.jobs.gpus[row] ? `, ${amount[i] / 1000} here` : "")],
        ["submitted", formats.elapsed(this.jobs.submit[row] * unit)],
        ["start", formats.elapsed(start[i] * unit)], ["end", formats.elapsed((start[i] + length[i]) * unit)],
        ["runs", formats.duration(length[i] * unit)],
      ]];
    }

    point(event) {
      const frame = this.stage.getBoundingClientRect(), x = event.clientX - frame.left, y = event.clientY - frame.top;
      const [wide, high] = this.size();
      if (!this.run || x < LEFT || x > LEFT + wide || y < TOP || y > TOP + high) { this.tip.hidden = true; return; }
      const told = this.close ? this.jobAt(x, y) : this.cellAt(x, y);
      this.tip.hidden = !told;
      if (!told) return;
      this.tip.innerHTML = `<b>${clean(told[0])}</b><table>${told[1].map((row) => `<tr>${row.map((text) => `<td>${clean(text)}</td>`).join("")}</tr>`).join("")}</table>`;
      const box = this.tip.getBoundingClientRect();
      this.tip.style.left = `${Math.min(x + 14, frame.width - box.width - 2)}px`;
      this.tip.style.top = `${y + 18 + box.height > frame.height ? Math.max(0, y - box.height - 10) : y + 18}px`;
    }

    jobAt(x, y) {
      const { time, node } = this.at(x, y), unit = this.data.unit, [low, high] = this.zoom.now, slack = (high - low) / 400;
      const hit = this.visible(node, (time - slack) / unit, (time + slack) / unit).find((i) =>
        this.boxes(node, i).some(([a, b, w, h]) => x >= a - 1 && x <= a + w + 1 && y >= b && y <= b + h));
      return hit === undefined ? null : this.job(hit);
    }

    cellAt(x, y) {
      const { time, node } = this.at(x, y), facts = [["time", formats.elapsed(time)]];
      let at = 0;
      const [, gpus, type, vc] = this.data.groups.find(([count]) => (at += count) > node);
      if (this.run.held) {
        const { amount, start, length } = this.run.held, when = time / this.data.unit;
        const now = this.visible(node, when, when).filter((i) => start[i] + length[i] > when);
        facts.push(["in use", `${formats.number(now.reduce((sum, i) => sum + amount[i], 0) / 1000).replace(/\.0+$/, "")} of ${gpus} ${type}`], ["jobs", String(now.length)]);
      } else {
        const { rows, bins, levels, cells } = this.run, row = Math.floor((node * rows) / this.nodes), bin = Math.min(bins - 1, Math.floor((time / this.data.span) * bins));
        facts.push(["in use", formats.share(cells[row * bins + bin] / levels)]);
      }
      if (vc) facts.push(["virtual cluster", vc]);
      return [`Node ${node}`, facts];
    }

    find(id) {
      const row = this.jobs.names.indexOf(id);
      if (row < 0) return this.tell(`There is no job ${id}.`);
      if (!this.run.held) return this.tell(`Single jobs are not in this page for ${this.run.name}.`);
      const { first, start, length, job } = this.run.held, { unit } = this.data, nodes = [], times = [];
      for (let node = 0; node < this.nodes; node++)
        for (let i = first[node]; i < first[node + 1]; i++) if (job[i] === row) { nodes.push(node); times.push([start[i] * unit, (start[i] + length[i]) * unit]); }
      if (!nodes.length) return this.tell(`Job ${id} never ran.`);
      const begin = Math.min(...times.map((t) => t[0])), end = Math.max(...times.map((t) => t[1])), submit = this.jobs.submit[row] * unit;
      const low = Math.min(...nodes), high = Math.max(...nodes), margin = Math.max((end - begin) * 0.3, 60 * unit);
      this.found = row;
      this.setRows(low - 3, high + 4);
      zoomTo(this.zoom, begin - margin, end + margin);
      const user = this.jobs.users[this.jobs.user[row]], where = [...new Set(nodes)];
      this.tell(`Job ${id}${user ? ` of ${user}` : ""}: ${this.jobs.gpus[row] / 1000} GPUs, submitted at ${formats.elapsed(submit)}, first started ${formats.duration(Math.max(0, begin - submit))} later,` +
        ` last seen at ${formats.elapsed(end)}, on node${where.length > 1 ? "s" : ""} ${where.slice(0, 8).join(", ")}${where.length > 8 ? " and others" : ""}${times.length > where.length ? `, in ${times.length} stays` : ""}.`);
    }

    tell(text) { this.said.textContent = text; announce(text); }
  }

  for (const figure of document.querySelectorAll("figure.timeline")) new Timeline(figure);
})();
