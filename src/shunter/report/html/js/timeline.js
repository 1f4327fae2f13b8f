"use strict";
// The node timeline on a canvas: zoomed out a map of how busy nodes are, zoomed in every stay of a job as a bar.

(() => {
  const { formats, date, scale } = Numbers;
  const { make, clean, announce, button, themed, printed, PRINT_WIDTH } = Controls;
  const { zoomGroup, zoomTo, zoomBy, panBy, reset, zoomTools, selectable } = Controls;
  const [LEFT, TOP, RIGHT, BOTTOM] = [52, 4, 8, 24]; // room around the map
  const NEAR = 10; // pixels per node from which single jobs are drawn
  const MOST_BARS = 6000; // more than this at once are a map again
  const PRINT_DOTS = 3; // per pixel
  const USERS = 8; // colours for users
  const LABEL =
    "Nodes over time. Arrow keys move, plus and minus zoom, 0 shows all. The data are in the table below; single jobs" +
    " are found by their id above.";

  const gpusText = (thousandths) => formats.number(thousandths / 1000).replace(/\.0+$/, "");
  const counted = (text, noun) => `${text} ${noun}${String(text) === "1" ? "" : "s"}`;
  const some = (names, most = 8) => names.slice(0, most).join(", ") + (names.length > most ? " and others" : "");

  class Timeline {
    constructor(figure) {
      this.data = JSON.parse(figure.querySelector("script").textContent);
      this.gpus = this.data.groups.flatMap(([count, gpus]) => Array(count).fill(gpus));
      this.nodes = this.gpus.length;
      this.rows = [0, this.nodes]; // the nodes in view
      this.zoom = zoomGroup(this.data.zoom, 0, this.data.span);
      this.found = null; // the job that was searched for
      this.stage = figure.querySelector(".stage");
      this.canvas = make("canvas", { tabindex: "0", role: "img", "aria-label": LABEL });
      this.tip = make("div", { class: "tip", hidden: "" });
      this.legend = make("p", { class: "scale" }, "0 % ", make("i"), " 100 % of the GPUs in use");
      this.said = make("p", { class: "note" });
      this.stage.before(this.tools());
      this.stage.append(this.canvas, this.tip);
      this.stage.after(this.legend, this.said);
      this.listen();
      reset(this.zoom);
      this.choose(0);
    }

    // ----------------------------------------------------------------------------------------- what people do

    tools() {
      const options = this.data.runs.map(({ name }) => make("option", {}, name));
      const picker = make("select", { onchange: (event) => this.choose(event.target.selectedIndex) }, ...options);
      const nodes = [
        button("Fewer nodes", "Show fewer nodes", () => this.zoomRows(0.5)),
        button("More nodes", "Show more nodes", () => this.zoomRows(2)),
        button("↑", "Nodes above", () => this.panRows(-0.5)),
        button("↓", "Nodes below", () => this.panRows(0.5)),
        button("All", "Show all nodes and the whole time", () => this.all()),
      ];
      const row = make("div", { class: "tools" }, ...zoomTools(this.zoom), ...nodes);
      if (options.length > 1) row.prepend(make("label", {}, "Policy ", picker));
      if (this.data.jobs) row.append(this.search());
      return row;
    }

    search() {
      const input = make("input", { type: "search", name: "job", autocomplete: "off", spellcheck: "false" });
      const find = (event) => {
        event.preventDefault();
        this.find(input.value.trim());
      };
      const label = make("label", {}, this.data.jobs.ids ? "Job id " : "Row (not the job's id) ", input);
      return make("form", { class: "tools", role: "search", onsubmit: find }, label, make("button", {}, "Find"));
    }

    listen() {
      const hide = () => (this.tip.hidden = true);
      const area = () => {
        const [wide, high] = this.size();
        return { left: LEFT, right: LEFT + wide, top: TOP, bottom: TOP + high };
      };
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
      this.stage.addEventListener("pointerleave", hide);
      this.canvas.addEventListener("keydown", (event) => this.press(event));
      this.zoom.followers.push(() => this.draw());
      themed.push(() => this.draw());
      printed.push((before) => {
        this.canvas.style.width = before ? `${PRINT_WIDTH}px` : "";
        this.draw(before ? PRINT_DOTS : undefined);
      });
      new ResizeObserver(() => this.draw()).observe(this.canvas);
    }

    press(event) {
      const acts = {
        ArrowLeft: () => panBy(this.zoom, -0.25),
        ArrowRight: () => panBy(this.zoom, 0.25),
        ArrowUp: () => this.panRows(-0.25),
        ArrowDown: () => this.panRows(0.25),
        "+": () => this.closer(0.5),
        "=": () => this.closer(0.5),
        "-": () => this.closer(2),
        0: () => this.all(),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
    }

    choose(index) {
      const run = this.data.runs[index];
      if (run.stays && !run.held) run.held = Stays.stays(run.stays, this.gpus);
      if (run.grid && !run.shares)
        run.shares = Float32Array.from(Stays.bytesOf(run.grid), (level) => level / run.levels);
      if (this.data.jobs && !this.jobs) this.jobs = this.unpackJobs(this.data.jobs);
      this.run = run;
      this.canvas.dataset.ready = run.name;
      this.draw();
    }

    unpackJobs({ ids, users, columns }) {
      return { ...Stays.columns(columns), users, ids: ids && Stays.ids(ids) };
    }

    // The name of a job: its id or, if the page has no ids, its row, marked as such.
    name(row) {
      return this.jobs.ids ? this.jobs.ids[row] : `row ${row + 1}`;
    }
    rowOf(text) {
      if (this.jobs.ids) return this.jobs.ids.indexOf(text);
      const row = /^(row )?[0-9]+$/.test(text) ? Number(text.replace("row ", "")) : 0;
      return row <= this.jobs.submit.length ? row - 1 : -1;
    }

    // ----------------------------------------------------------------------------------------- what is in view

    all() {
      this.found = null;
      this.rows = [0, this.nodes];
      reset(this.zoom);
    }
    closer(factor) {
      this.scaleRows(factor);
      zoomBy(this.zoom, factor);
    }
    zoomRows(factor) {
      this.scaleRows(factor);
      this.draw();
    }
    panRows(part) {
      const [low, high] = this.rows;
      const move = Math.sign(part) * Math.max(1, Math.round(Math.abs(part) * (high - low)));
      this.setRows(low + move, high + move);
      this.draw();
    }
    scaleRows(factor) {
      const [low, high] = this.rows;
      const [middle, half] = [(low + high) / 2, ((high - low) / 2) * factor];
      this.setRows(middle - half, middle + half);
    }
    setRows(low, high) {
      const count = Math.min(Math.max(Math.round(high - low), 1), this.nodes);
      const from = Math.min(Math.max(Math.round((low + high - count) / 2), 0), this.nodes - count);
      this.rows = [from, from + count];
    }

    size() {
      return [this.canvas.clientWidth - LEFT - RIGHT, this.canvas.clientHeight - TOP - BOTTOM];
    }
    units() {
      return this.zoom.now.map((time) => time / this.data.unit);
    }
    at(x, y) {
      const [wide, high] = this.size();
      const [low, to] = this.zoom.now;
      const [top, bottom] = this.rows;
      const node = Math.floor(top + ((y - TOP) / high) * (bottom - top));
      return { time: low + ((x - LEFT) / wide) * (to - low), node: Math.min(Math.max(node, top), bottom - 1) };
    }

    // ----------------------------------------------------------------------------------------- drawing

    draw(ratio = devicePixelRatio || 1) {
      const { clientWidth: width, clientHeight: height } = this.canvas;
      if (!width || !this.run) return;
      [this.canvas.width, this.canvas.height] = [width * ratio, height * ratio];
      const paint = this.canvas.getContext("2d");
      paint.scale(ratio, ratio);
      this.colours = this.resolve();
      paint.fillStyle = this.colours.empty;
      paint.fillRect(LEFT, TOP, ...this.size());
      const bars = this.near();
      this.close = Boolean(bars);
      this.legend.hidden = this.close;
      bars ? this.drawBars(paint, bars) : this.drawMap(paint);
      if (this.found !== null && this.run.held) this.mark(paint);
      this.drawTimes(paint);
      this.drawNodes(paint);
      this.said.textContent = this.where() + this.what();
    }

    resolve() {
      const probe = this.stage.appendChild(make("i"));
      const users = Array.from({ length: USERS }, (_, user) => `s${user}`);
      const found = {};
      for (const name of ["empty", "heat", "ink", "muted", "line", "page", "down", ...users]) {
        probe.style.color = `var(--${name})`;
        found[name] = getComputedStyle(probe).color;
      }
      probe.remove();
      return found;
    }

    // The stays to draw one by one, a list per node, or null where a map shows more.
    near() {
      const [top, bottom] = this.rows;
      const [, high] = this.size();
      if (!this.run.held || high / (bottom - top) < NEAR) return null;
      const found = [];
      let count = 0;
      for (let node = top; node < bottom && count <= MOST_BARS; node++) {
        found.push(this.run.held.during(node, ...this.units()));
        count += found.at(-1).length;
      }
      return count > MOST_BARS ? null : found;
    }

    drawMap(paint) {
      const { values, width, height, box } = this.run.held ? this.addedUp() : this.cutOut();
      const parts = (text) => text.match(/[\d.]+/g).map(Number);
      const [none, full] = [parts(this.colours.empty), parts(this.colours.heat)];
      const image = new ImageData(width, height);
      for (let i = 0; i < values.length; i++) {
        const share = Math.min(1, values[i]);
        for (let k = 0; k < 3; k++) image.data[4 * i + k] = none[k] + (full[k] - none[k]) * share;
        image.data[4 * i + 3] = 255;
      }
      const buffer = make("canvas", { width, height });
      buffer.getContext("2d").putImageData(image, 0, 0);
      paint.imageSmoothingEnabled = false;
      paint.drawImage(buffer, ...box, LEFT, TOP, ...this.size());
    }

    addedUp() {
      const [wide, high] = this.size();
      const [top, bottom] = this.rows;
      const height = Math.min(bottom - top, Math.max(1, Math.floor(high / 2)));
      const width = Math.max(1, Math.floor(wide / 2));
      const values = this.run.held.occupancy(this.rows, this.units(), height, width);
      return { values, width, height, box: [0, 0, width, height] };
    }

    cutOut() {
      const { shares: values, rows: height, bins: width } = this.run;
      const [left, right] = this.zoom.now.map((time) => (time / this.data.span) * width);
      const [top, bottom] = this.rows.map((node) => (node / this.nodes) * height);
      return { values, width, height, box: [left, top, right - left, bottom - top] };
    }

    // The rectangles of a stay.
    boxes(node, i) {
      const [wide, high] = this.size();
      const [low, to] = this.units();
      const [top, bottom] = this.rows;
      const { held } = this.run;
      const row = high / (bottom - top);
      const pad = Math.min(2, row * 0.08);
      const x = (time) => LEFT + Math.min(Math.max((time - low) / (to - low), 0), 1) * wide;
      const from = x(held.start[i]);
      const end = Math.max(x(held.end(i)), from + 1);
      const room = this.gpus[node] * 1000;
      const y = (place) => TOP + (node - top) * row + pad + (place / room) * (row - 2 * pad);
      const places = this.isDown(i) ? [[0, room]] : held.lanes(node).get(i);
      return places.map(([a, b]) => [from, y(a), end - from, Math.max(y(b) - y(a), 1)]);
    }

    isDown(i) {
      return this.run.held.job[i] >= this.jobs.submit.length;
    }

    drawBars(paint, bars) {
      paint.font = "11px system-ui, sans-serif";
      paint.textBaseline = "middle";
      bars.forEach((list, k) => list.forEach((i) => this.drawBar(paint, this.rows[0] + k, i)));
      const [wide, high] = this.size();
      paint.fillStyle = this.colours.line;
      for (let k = 1; k < bars.length; k++) paint.fillRect(LEFT, Math.round(TOP + (k * high) / bars.length), wide, 1);
    }

    drawBar(paint, node, i) {
      const row = this.run.held.job[i];
      const down = this.isDown(i);
      const text = down ? "down" : this.name(row);
      for (const [x, y, w, h] of this.boxes(node, i)) {
        paint.fillStyle = down ? this.colours.down : this.colours[`s${(this.jobs.user[row] || row) % USERS}`];
        paint.globalAlpha = down ? 0.35 : 0.85;
        paint.fillRect(x, y, Math.max(w - 0.7, 0.7), Math.max(h - 0.7, 0.7));
        paint.globalAlpha = 1;
        if (h < 12 || w < 8 + paint.measureText(text).width) continue;
        paint.fillStyle = down ? this.colours.ink : this.colours.page;
        paint.fillText(text, x + 4, y + h / 2);
      }
    }

    // Frames around the stays of the job that was searched for.
    mark(paint) {
      const boxes = this.run.held.of(this.found, ...this.rows).flatMap(([node, i]) => this.boxes(node, i));
      const frame = (colour, width) => {
        [paint.strokeStyle, paint.lineWidth] = [colour, width];
        for (const box of boxes) paint.strokeRect(...box);
      };
      frame(this.colours.page, 5);
      frame(this.colours.ink, 2);
    }

    drawTimes(paint) {
      const [wide, high] = this.size();
      const [low, to] = this.zoom.now;
      const { ticks, label } = scale({ unit: "elapsed", origin: this.data.origin }, low, to, wide / 90);
      paint.font = "12px system-ui, sans-serif";
      paint.fillStyle = this.colours.muted;
      paint.textBaseline = "top";
      for (const tick of ticks) {
        const x = LEFT + ((tick - low) / (to - low)) * wide;
        const width = paint.measureText(label(tick)).width;
        paint.fillRect(x, TOP + high, 1, 4);
        paint.fillText(label(tick), Math.min(x - width / 2, LEFT + wide + RIGHT - width), TOP + high + 8);
      }
    }

    drawNodes(paint) {
      const [, high] = this.size();
      const [top, bottom] = this.rows;
      const most = Math.max(1, Math.min(high / 30, bottom - top));
      paint.textBaseline = "middle";
      paint.textAlign = "right";
      for (const node of scale({ unit: "count" }, top, bottom - 1, most).ticks.filter((tick) => tick < bottom)) {
        const y = TOP + ((node - top + 0.5) * high) / (bottom - top);
        paint.fillText(node.toLocaleString("en"), LEFT - 6, Math.max(TOP + 6, y));
      }
      paint.textAlign = "left";
    }

    // ----------------------------------------------------------------------------------------- texts

    // Dates where the trace has them; a moment has seconds if it is known to the second.
    when(seconds, digits = 16) {
      return this.data.origin === null ? formats.elapsed(seconds) : date(this.data.origin + seconds, digits);
    }
    moment(seconds) {
      return this.when(seconds, this.data.unit > 1 ? 16 : 19);
    }

    where() {
      const [top, bottom] = this.rows;
      const [low, high] = this.zoom.now;
      const nodes = bottom - top === 1 ? `Node ${top}` : `Nodes ${top} to ${bottom - 1}`;
      return `${nodes}, ${this.when(low)} to ${this.when(high)}. `;
    }

    what() {
      const { name, grid, bins, rows } = this.run;
      const bars = "Every bar is a job; each colour is a user. The position of a bar within its node has no meaning.";
      if (this.close) return bars + this.missing();
      if (!grid) return "Zoom in on nodes and time to see single jobs.";
      const [time, nodes] = [formats.duration(this.data.span / bins), Math.ceil(this.nodes / rows)];
      const why = `Single jobs are not in this page for ${name}, because there are too many.`;
      return `${why} It has means over ${time} and ${counted(nodes, "node")}.`;
    }

    missing() {
      const rows = "a job is named by its row in jobs.parquet, counted from 1, in order of submission";
      return this.jobs.ids ? "" : ` Job ids are not in this page, because there are too many: ${rows}.`;
    }

    point(event) {
      const frame = this.stage.getBoundingClientRect();
      const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
      const [wide, high] = this.size();
      const outside = x < LEFT || x > LEFT + wide || y < TOP || y > TOP + high;
      const found = this.run && !outside && (this.close ? this.jobAt(x, y) : this.cellAt(x, y));
      this.tip.hidden = !found;
      if (!found) return;
      const [head, facts] = found;
      const rows = facts.map(([name, text]) => `<tr><td>${clean(name)}</td><td>${clean(text)}</td></tr>`);
      this.tip.innerHTML = `<b>${clean(head)}</b><table>${rows.join("")}</table>`;
      const box = this.tip.getBoundingClientRect();
      this.tip.style.left = `${Math.min(x + 14, frame.width - box.width - 2)}px`;
      this.tip.style.top = `${y + 18 + box.height > frame.height ? Math.max(0, y - box.height - 10) : y + 18}px`;
    }

    jobAt(x, y) {
      const { time, node } = this.at(x, y);
      const [low, high] = this.zoom.now;
      const slack = (high - low) / 400;
      const near = this.run.held.during(node, (time - slack) / this.data.unit, (time + slack) / this.data.unit);
      const inside = ([a, b, w, h]) => x >= a - 1 && x <= a + w + 1 && y >= b && y <= b + h;
      const hit = near.find((i) => this.boxes(node, i).some(inside));
      return hit === undefined ? null : this.aboutStay(hit);
    }

    aboutStay(i) {
      const { held } = this.run;
      const { unit } = this.data;
      const row = held.job[i];
      const times = [
        ["start", this.moment(held.start[i] * unit)],
        ["end", this.moment(held.end(i) * unit)],
      ];
      if (this.isDown(i)) return ["Node down or asleep", times];
      const user = this.jobs.users[this.jobs.user[row]];
      const here = held.amount[i] < this.jobs.gpus[row] ? `, ${gpusText(held.amount[i])} here` : "";
      const head = user ? [["user", user]] : [];
      head.push(["GPUs", gpusText(this.jobs.gpus[row]) + here]);
      head.push(["submitted", this.moment(this.jobs.submit[row] * unit)]);
      return [`Job ${this.name(row)}`, [...head, ...times, ["runs", formats.duration(held.length[i] * unit)]]];
    }

    cellAt(x, y) {
      const { time, node } = this.at(x, y);
      const { held, shares, rows, bins } = this.run;
      let count = 0;
      const [, gpus, type, vc] = this.data.groups.find((group) => (count += group[0]) > node);
      const facts = [["time", this.when(time)]];
      if (held) {
        const when = time / this.data.unit;
        const now = held.during(node, when, when).filter((i) => held.end(i) > when && !this.isDown(i));
        const used = now.reduce((sum, i) => sum + held.amount[i], 0);
        facts.push(["in use", `${gpusText(used)} of ${gpus} ${type}`], ["jobs", String(now.length)]);
      } else {
        const [row, bin] = [Math.floor((node * rows) / this.nodes), Math.floor((time / this.data.span) * bins)];
        facts.push(["in use", formats.share(shares[row * bins + Math.min(bin, bins - 1)])]);
      }
      return [`Node ${node}`, vc ? [...facts, ["virtual cluster", vc]] : facts];
    }

    find(id) {
      const row = this.rowOf(id);
      if (row < 0) return this.report(`There is no ${this.jobs.ids ? "job" : "row"} ${id}.${this.missing()}`);
      if (!this.run.held) return this.report(`Single jobs are not in this page for ${this.run.name}.`);
      const stays = this.run.held.of(row, 0, this.nodes);
      if (!stays.length) return this.report(`Job ${this.name(row)} never ran.`);
      const nodes = stays.map(([node]) => node); // in ascending order
      const begin = Math.min(...stays.map(([, i]) => this.run.held.start[i])) * this.data.unit;
      const end = Math.max(...stays.map(([, i]) => this.run.held.end(i))) * this.data.unit;
      const margin = Math.max((end - begin) * 0.3, 60 * this.data.unit);
      this.found = row;
      this.setRows(nodes[0] - 3, nodes.at(-1) + 4);
      zoomTo(this.zoom, begin - margin, end + margin);
      return this.report(this.aboutJob(row, [...new Set(nodes)], stays.length, begin, end));
    }

    aboutJob(row, nodes, stays, begin, end) {
      const user = this.jobs.users[this.jobs.user[row]];
      const submit = this.jobs.submit[row] * this.data.unit;
      const of = user ? ` of ${/^user/i.test(user) ? "" : "user "}${user}` : "";
      const who = `Job ${this.name(row)}${of}: ${counted(gpusText(this.jobs.gpus[row]), "GPU")}`;
      const first = formats.duration(Math.max(0, begin - submit));
      const times = `submitted at ${this.moment(submit)}, first started ${first} later`;
      const when = `${times}, last seen at ${this.moment(end)}`;
      const where = `on node${nodes.length > 1 ? "s" : ""} ${some(nodes)}`;
      return `${who}, ${when}, ${where}${stays > nodes.length ? `, in ${stays} stays` : ""}.${this.missing()}`;
    }

    report(text) {
      this.said.textContent = text;
      announce(text);
    }
  }

  for (const figure of document.querySelectorAll("figure.timeline")) new Timeline(figure);
})();
