"use strict";
// Charts of work that is under way: they grow in place, so that what a reader has opened stays open.

const Growing = (() => {
  const EVERY_MS = 1000; // between two looks
  const charts = (root) => [...root.querySelectorAll("figure.chart")];
  const series = (figure) => JSON.parse(figure.querySelector("script").textContent).series.map(({ name }) => name).join();
  const alike = (before, after) =>
    before.length === after.length && before.every((one, i) => one.dataset.drawn !== undefined && series(one) === series(after[i]));

  const put = (box, text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html").body;
    const [words, other] = [box, fresh].map((root) => root.querySelector("[data-words]"));
    const before = charts(box),
      after = charts(fresh);
    if (words && other && before.length && alike(before, after)) {
      words.replaceChildren(...other.childNodes);
      before.forEach((one, i) => Figures.grow(one, after[i]));
    } else {
      box.replaceChildren(...fresh.childNodes);
      Figures.drawIn(box);
    }
  };

  // Returns a function that shows an address in a box, at most every second; `last` says that this is the end.
  const follower = (box, address) => {
    let busy = false,
      again = false,
      next = 0;
    const load = async () => {
      busy = true;
      again = false;
      next = Date.now() + EVERY_MS;
      try {
        const answer = await fetch(address, { headers: { "HX-Request": "true" } });
        if (answer.ok && box.isConnected) put(box, await answer.text());
      } catch {
        // the server does not answer; the next event tries again
      }
      busy = false;
      if (again) setTimeout(load, Math.max(0, next - Date.now()));
    };
    return () => {
      if (busy || Date.now() < next) {
        if (!busy && !again) setTimeout(load, next - Date.now());
        again = true;
      } else load();
    };
  };

  const page = document.getElementById("growing");
  if (page) {
    const show = follower(page, page.dataset.part),
      source = new EventSource(page.dataset.events);
    source.addEventListener("progress", show);
    source.addEventListener("over", () => {
      source.close();
      show();
      Controls.announce("It has ended");
    });
  }
  return { follower };
})();
