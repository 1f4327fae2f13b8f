"use strict";
// Stays of jobs on nodes as a page has them packed (see timeline.py): unpacked, added up, laid side by side.

const Stays = (() => {
  const bytesOf = (text) => inflate(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
  const columns = (text) => {
    const bytes = bytesOf(text),
      end = bytes.indexOf(0),
      found = {};
    let at = end + 1;
    for (const [name, count] of Object.entries(JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))))) {
      const values = (found[name] = new Uint32Array(count));
      for (let plane = 0; plane < 4; plane++, at += count)
        for (let i = 0; i < count; i++) values[i] |= bytes[at + i] << (8 * plane);
    }
    return found;
  };

  // Numbers from the steps between them, of which those that go down are odd.
  const walked = (steps) => {
    let at = 0;
    return steps.map((step) => (at += step % 2 ? -(step + 1) / 2 : step / 2));
  };
  const json = (text) => JSON.parse(new TextDecoder().decode(bytesOf(text)));
  const ids = (packed) => {
    if (packed.text) return json(packed.text);
    const stems = json(packed.stems);
    const { stem, width, number } = columns(packed.columns);
    const write = (value, i) => stems[stem[i]] + (width[i] ? String(value).padStart(width[i], "0") : "");
    return Array.from(walked(number), write);
  };

  // All stays of a run.  Those of node n are first[n] to first[n + 1], by their beginning; times are in units of the
  // page, amounts in thousandths of GPUs.
  class Stays {
    constructor({ counts, delta, length, amount, job }, gpus) {
      Object.assign(this, { start: delta, length, amount, job: walked(job), gpus, placed: new Map() });
      this.first = new Uint32Array(gpus.length + 1);
      for (let node = 0; node < gpus.length; node++) {
        this.first[node + 1] = this.first[node] + counts[node];
        for (let i = this.first[node] + 1; i < this.first[node + 1]; i++) delta[i] += delta[i - 1];
      }
    }

    end(i) {
      return this.start[i] + this.length[i];
    }

    // Those of a node that touch a span of time.
    during(node, low, high) {
      const found = [];
      for (let i = this.first[node]; i < this.first[node + 1] && this.start[i] <= high; i++)
        if (this.end(i) >= low) found.push(i);
      return found;
    }

    // Those of a job on some nodes, as [node, stay].
    of(job, top, bottom) {
      const found = [];
      for (let node = top; node < bottom; node++)
        for (let i = this.first[node]; i < this.first[node + 1]; i++) if (this.job[i] === job) found.push([node, i]);
      return found;
    }

    // Share of the GPUs in use, rows x bins, for nodes from top to bottom and times from low to high: each stay adds
    // where it begins and takes away where it ends, and sums along the row give what is held.
    occupancy([top, bottom], [low, high], rows, bins) {
      const wide = bins + 2;
      const edges = new Float64Array(rows * wide);
      const room = new Float64Array(rows);
      const edge = (row, time, weight) => {
        const at = Math.min(Math.max(((time - low) / (high - low)) * bins, 0), bins);
        const rest = Math.floor(at) + 1 - at;
        edges[row * wide + Math.floor(at)] += rest * weight;
        edges[row * wide + Math.floor(at) + 1] += (1 - rest) * weight;
      };
      for (let node = top; node < bottom; node++) {
        const row = Math.floor(((node - top) * rows) / (bottom - top));
        room[row] += this.gpus[node] * 1000;
        for (const i of this.during(node, low, high)) {
          edge(row, this.start[i], this.amount[i]);
          edge(row, this.end(i), -this.amount[i]);
        }
      }
      const shares = new Float32Array(rows * bins);
      for (let row = 0; row < rows; row++)
        for (let bin = 0, held = 0; bin < bins; bin++)
          shares[row * bins + bin] = (held += edges[row * wide + bin]) / room[row];
      return shares;
    }

    // Where the stays of a node lie beside each other: per stay [from, to] in thousandths of GPUs, several where there
    // is no one gap for it.
    lanes(node) {
      if (this.placed.has(node)) return this.placed.get(node);
      const places = new Map();
      let running = [];
      for (let i = this.first[node]; i < this.first[node + 1]; i++) {
        running = running.filter((k) => this.end(k) > this.start[i]);
        const taken = running.flatMap((k) => places.get(k)).sort((a, b) => a[0] - b[0]);
        places.set(i, gaps(taken, this.amount[i], this.gpus[node] * 1000));
        running.push(i);
      }
      this.placed.set(node, places);
      return places;
    }
  }

  const gaps = (taken, need, room) => {
    const free = [];
    let at = 0;
    for (const [from, to] of taken) {
      if (from > at) free.push([at, from]);
      at = Math.max(at, to);
    }
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
  };

  const stays = (text, gpus) => new Stays(columns(text), gpus);
  return { bytesOf, columns, ids, stays };
})();
