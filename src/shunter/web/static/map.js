"use strict";
// The nodes of a cluster on a canvas: one strip per node, one cell per GPU, however many there are.

(() => {
  const { themed } = Controls;
  const maps = [];

  class NodeMap {
    constructor(element) {
      this.element = element;
      this.nodes = JSON.parse(element.querySelector("script").textContent).nodes;
      this.canvas = element.querySelector("canvas");
      this.about = element.querySelector(".about");
      this.chosen = -1;
      this.columns = 1; // until it is drawn
      this.canvas.addEventListener("pointermove", (event) => this.choose(this.under(event)));
      this.canvas.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[event.key];
        if (!by) return;
        event.preventDefault();
        this.choose(Math.min(Math.max(this.chosen + by, 0), this.nodes.length - 1));
      });
      this.watch = new ResizeObserver(() => this.draw());
      this.watch.observe(element);
    }

    // Cells as large as there is room for them.
    measure() {
      const most = Math.max(1, ...this.nodes.map(([, gpus]) => gpus)),
        width = this.canvas.clientWidth || 300;
      this.cell = this.nodes.length > 300 ? 5 : this.nodes.length > 60 ? 8 : 13;
      this.wide = most * (this.cell + 1) + 7;
      this.high = this.cell + 6;
      this.columns = Math.max(1, Math.floor(width / this.wide));
      this.rows = Math.ceil(this.nodes.length / this.columns);
      return [width, this.rows * this.high];
    }

    draw() {
      const [width, height] = this.measure(),
        scale = devicePixelRatio || 1,
        colours = getComputedStyle(this.element),
        colour = (name) => colours.getPropertyValue(name);
      this.canvas.style.height = `${height}px`;
      this.canvas.width = width * scale;
      this.canvas.height = height * scale;
      const context = this.canvas.getContext("2d");
      context.scale(scale, scale);
      const probe = document.createElement("i");
      this.element.append(probe);
      const resolved = Object.fromEntries(
        ["--empty", "--heat", "--down", "--ink", "--edge"].map((name) => {
          probe.style.color = colour(name) && `var(${name})`;
          return [name, getComputedStyle(probe).color];
        }),
      );
      probe.remove();
      this.nodes.forEach(([, gpus, used, up], i) => {
        const x = (i % this.columns) * this.wide,
          y = Math.floor(i / this.columns) * this.high;
        for (let gpu = 0; gpu < gpus; gpu++) {
          context.fillStyle = up ? resolved[gpu < used ? "--heat" : "--empty"] : resolved["--down"];
          context.fillRect(x + 2 + gpu * (this.cell + 1), y + 2, this.cell, this.cell);
          if (up && gpu >= used && this.cell > 6) {
            context.strokeStyle = resolved["--edge"];
            context.strokeRect(x + 2.5 + gpu * (this.cell + 1), y + 2.5, this.cell - 1, this.cell - 1);
          }
        }
        if (i === this.chosen) {
          context.strokeStyle = resolved["--ink"];
          context.strokeRect(x + 0.5, y + 0.5, gpus * (this.cell + 1) + 3, this.cell + 3);
        }
      });
    }

    under({ offsetX, offsetY }) {
      const column = Math.floor(offsetX / this.wide),
        i = Math.floor(offsetY / this.high) * this.columns + column;
      return column < this.columns && i < this.nodes.length ? i : -1;
    }

    choose(i) {
      if (i === this.chosen || i < 0) return;
      this.chosen = i;
      const [name, gpus, used, up, state, type, jobs] = this.nodes[i];
      const what = `${used} of ${gpus} ${type ? `${type} ` : ""}GPUs in use`;
      this.about.textContent = `${name}: ${up ? what : "not available"} (${state})${jobs.length ? `; jobs ${jobs.join(", ")}` : ""}`;
      this.draw();
    }
  }

  const drawIn = (root) => {
    for (const gone of maps.filter(({ element }) => !element.isConnected)) {
      gone.watch.disconnect();
      maps.splice(maps.indexOf(gone), 1);
    }
    for (const element of root.querySelectorAll("figure.map:not([data-drawn])")) {
      element.dataset.drawn = "";
      maps.push(new NodeMap(element));
    }
  };
  themed.push(() => maps.forEach((map) => map.draw()));
  document.body.addEventListener("htmx:afterSettle", ({ target }) => drawIn(target));
  drawIn(document);
})();
