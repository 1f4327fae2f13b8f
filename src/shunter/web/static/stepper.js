"use strict";
// Steps through a stretch of a run: who runs where, who waits and why, what was just decided.

(() => {
  const { make } = Controls;
  const COLOURS = 10;
  const PLAY_MS = 900;
  const { formats } = Numbers;

  class Stepper {
    constructor(element) {
      this.element = element;
      this.data = JSON.parse(element.querySelector("script").textContent);
      this.at = 0;
      this.playing = 0;
      this.slider = element.querySelector("input[type=range]");
      this.slider.max = this.data.frames.length - 1;
      this.slider.addEventListener("input", () => this.show(Number(this.slider.value)));
      const moves = { first: () => 0, back: () => this.at - 1, next: () => this.at + 1, last: () => this.slider.max };
      for (const one of element.querySelectorAll("[data-step]")) {
        const move = moves[one.dataset.step];
        one.addEventListener("click", () => (move ? (this.stop(), this.show(Number(move()))) : this.play(one)));
      }
      element.addEventListener("keydown", (event) => {
        if (event.target === this.slider || event.altKey || event.ctrlKey || event.metaKey) return;
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (by) event.preventDefault(), this.stop(), this.show(this.at + by);
      });
      this.nodes = this.data.nodes.map((node) => this.node(node));
      element.querySelector(".stage").append(...this.nodes.map(({ frame }) => frame));
      if (this.data.left_out)
        element.querySelector(".stage").after(make("p", { class: "note" }, `${this.data.left_out} other nodes are not drawn.`));
      this.show(0);
    }

    node({ name, gpus }) {
      const cells = make("div", { class: "gpus" });
      const frame = make("div", { class: "node" }, make("b", {}, `node ${name}`), cells);
      return { frame, cells, gpus };
    }

    play(toggle) {
      if (this.playing) return this.stop();
      toggle.textContent = "Pause";
      this.playing = setInterval(() => {
        if (!this.element.isConnected || this.at >= this.data.frames.length - 1) return this.stop();
        return this.show(this.at + 1);
      }, PLAY_MS);
      return undefined;
    }

    stop() {
      clearInterval(this.playing);
      this.playing = 0;
      this.element.querySelector("[data-step=play]").textContent = "Play";
    }

    show(at) {
      this.at = Math.min(Math.max(at, 0), this.data.frames.length - 1);
      const frame = this.data.frames[this.at];
      this.slider.value = this.at;
      this.element.querySelector("output").textContent = `${this.at + 1} of ${this.data.frames.length}`;
      const [first, ...rest] = frame.happened.length ? frame.happened : ["nothing changes"];
      const text = [first[0].toUpperCase() + first.slice(1), ...rest].join("; ");
      this.element.querySelector(".now").replaceChildren(make("b", {}, frame.when), ` ${text}.`);
      frame.nodes.forEach((now, i) => this.fill(this.nodes[i], now));
      this.wait(frame);
    }

    fill({ frame, cells, gpus }, now) {
      frame.classList.toggle("away", now.away);
      const parts = now.jobs.map(([name, row, amount]) => {
        const part = make("span", { class: "job", title: `job ${name}, ${amount} GPUs` }, name);
        part.style.cssText = `flex:${amount} 0 0;--job:var(--s${row % COLOURS})`;
        return part;
      });
      const free = gpus - now.jobs.reduce((sum, [, , amount]) => sum + amount, 0);
      if (free > 0.001) {
        const rest = make("span", { class: "free" }, now.away ? "away" : `${Number(free.toFixed(2))} free`);
        rest.style.cssText = `flex:${free} 0 0`;
        parts.push(rest);
      }
      cells.replaceChildren(...parts);
    }

    wait({ waiting, more, running }) {
      const place = this.element.querySelector(".waiting");
      if (!waiting.length) return place.replaceChildren(make("p", { class: "note" }, `No job waits; ${running} run.`));
      const rows = waiting.map(({ job, row, gpus, s, why }) => {
        const chip = make("b", { class: "chip" }, job);
        chip.style.cssText = `--job:var(--s${row % COLOURS})`;
        return make("li", {}, chip, make("span", {}, `${gpus} GPU${gpus === 1 ? "" : "s"}, waits ${formats.duration(s)}`), make("small", {}, why));
      });
      place.replaceChildren(make("ul", {}, ...rows));
      if (more) place.append(make("p", { class: "note" }, `And ${more} more.`));
      return undefined;
    }
  }

  const drawIn = (root) => {
    for (const element of root.querySelectorAll("figure.stepper:not([data-drawn])")) {
      element.dataset.drawn = "";
      new Stepper(element);
    }
  };
  document.body.addEventListener("htmx:afterSettle", ({ target }) => drawIn(target));
  drawIn(document);
})();
