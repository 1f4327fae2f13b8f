"use strict";
// What all parts of the page share: charts in what has just come, copying, other names, choices that are remembered.

(() => {
  const { announce, make } = Controls;

  // What htmx has put into the page may have charts.
  document.body.addEventListener("htmx:afterSettle", ({ target }) => {
    Figures.drawIn(target);
    target.querySelector("[data-focus]")?.focus(); // a question that has just come
  });
  document.body.addEventListener("htmx:sendError", () => announce("The server does not answer."));

  // When a run under way begins or ends, the list of runs is another.
  document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const before = detail.target;
    if (before.id !== "under-way") return;
    const after = new DOMParser().parseFromString(detail.serverResponse, "text/html").getElementById("under-way");
    const fewer = before.dataset.names && after && after.dataset.names !== before.dataset.names;
    if (fewer) htmx.ajax("GET", "/runs/list", { target: "#list", source: "#filters" });
  });

  // Light and dark are remembered in this browser.
  new MutationObserver(() => {
    const theme = document.documentElement.dataset.theme;
    try {
      theme ? localStorage.setItem("theme", theme) : localStorage.removeItem("theme");
    } catch {
      // no storage in this browser
    }
  }).observe(document.documentElement, { attributeFilter: ["data-theme"] });

  const copied = async (button) => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      announce("Copied");
      button.dataset.done = "";
      setTimeout(() => delete button.dataset.done, 1500);
    } catch {
      getSelection().selectAllChildren(code); // the reader can copy it by hand
      announce("Selected; copy it with the keyboard");
    }
  };

  const renameForm = (button) => {
    const name = button.dataset.rename;
    const field = make("input", { name: "name", value: name.split("/").pop(), "aria-label": `New name of ${name}`, required: "", maxlength: "100" });
    const send = () =>
      htmx.ajax("POST", "/runs/rename", { target: "#list", source: "#filters", values: { run: name, name: field.value } });
    const close = () => {
      row.replaceWith(button);
      button.focus();
    };
    const keys = (event) => {
      if (event.key === "Enter") event.preventDefault(), send();
      if (event.key === "Escape") close();
    };
    const row = make(
      "span",
      { class: "row rename", onkeydown: keys },
      field,
      make("button", { type: "button", class: "small", onclick: send }, "Rename"),
      make("button", { type: "button", class: "small", onclick: close }, "Cancel"),
    );
    button.replaceWith(row);
    field.select();
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if ("copy" in button.dataset) copied(button);
    if ("rename" in button.dataset) renameForm(button);
    if (button.dataset.remove) document.querySelector(button.dataset.remove).remove();
    if (button.dataset.empty) document.querySelector(button.dataset.empty).replaceChildren();
    if (button.dataset.fill) {
      const field = button.form.elements[button.dataset.fill];
      field.value = button.dataset.value;
      field.dispatchEvent(new Event("change", { bubbles: true }));
    }
  });

  // A number beside every slider.
  document.addEventListener("input", (event) => {
    const shown = event.target.type === "range" && event.target.parentElement.querySelector("output");
    if (shown && !event.target.closest(".stepper")) shown.textContent = event.target.value;
  });

  // Fields that are empty are not part of an address.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "get" || !("sparse" in event.target.dataset)) return;
    const empty = [...event.target.elements].filter((field) => field.name && !field.value);
    for (const field of empty) field.disabled = true;
    setTimeout(() => empty.forEach((field) => (field.disabled = false))); // the way back leads to the same form
  });
})();
