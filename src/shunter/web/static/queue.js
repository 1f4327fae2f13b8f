"use strict";
// The queue, however long: only the rows around what is in view are in the page; gaps stand for all others.

(() => {
  const BUFFER = 10; // rows that are loaded beyond the edges

  class VirtualList {
    constructor(frame) {
      this.frame = frame;
      this.rows = frame.querySelector("tbody.rows");
      [this.above, this.below] = frame.querySelectorAll("tbody.gap");
      this.count = Number(frame.dataset.count);
      this.begin = Number(this.rows.dataset.begin);
      this.asked = 0; // of the last part that was asked for: answers to older ones come too late
      frame.addEventListener("scroll", () => this.soon(), { passive: true });
      this.place();
    }

    get height() {
      const size = this.rows.rows.length;
      return size ? this.rows.getBoundingClientRect().height / size : 0;
    }

    // Gaps as high as the rows that they stand for.
    place() {
      const row = this.known || (this.known = this.height);
      const gap = (body, rows) => {
        body.replaceChildren();
        if (rows > 0) body.insertRow().insertCell().style.cssText = `height:${Math.round(rows * row)}px;padding:0;border:0`;
      };
      gap(this.above, this.begin);
      gap(this.below, this.count - this.begin - this.rows.rows.length);
    }

    soon() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.look(), 60);
    }

    look() {
      const row = this.known,
        size = this.rows.rows.length,
        top = Math.max(0, this.frame.scrollTop - this.frame.querySelector("thead").offsetHeight),
        first = Math.floor(top / row),
        last = Math.ceil((top + this.frame.clientHeight) / row);
      if (first >= this.begin && Math.min(last, this.count) <= this.begin + size) return;
      const begin = Math.max(0, Math.min(first - BUFFER, this.count - 1));
      this.load(begin);
    }

    async load(begin) {
      const ticket = ++this.asked,
        filters = new URLSearchParams(new FormData(document.getElementById("queue-filters")));
      filters.set("begin", begin);
      if (this.frame.dataset.when) filters.set("when", "1");
      const found = await fetch(`/cluster/queue/rows?${filters}`, { headers: { "HX-Request": "true" } }).catch(() => null);
      if (ticket !== this.asked || !this.frame.isConnected) return;
      if (!found || !found.ok) return Controls.announce("The queue could not be read.");
      this.rows.innerHTML = await found.text();
      this.begin = begin;
      this.place();
      Controls.announce(`Jobs ${begin + 1} to ${begin + this.rows.rows.length} of ${this.count}`);
    }
  }

  const drawIn = (root) => {
    for (const frame of root.querySelectorAll(".virtual:not([data-drawn])")) {
      frame.dataset.drawn = "";
      new VirtualList(frame);
    }
  };
  document.body.addEventListener("htmx:afterSettle", ({ target }) => drawIn(target));
  drawIn(document);
})();
