"use strict";
// The form of a what-if: dropped files, sliders, policies that come and go, progress by server-sent events.

(() => {
  const { announce } = Controls;
  const form = document.getElementById("what-if"),
    answer = document.getElementById("answer"),
    trace = document.getElementById("trace"),
    drop = document.getElementById("drop");

  // ------------------------------------------------------------------------------------------- traces

  const showKinds = () => {
    document.getElementById("synthetic").hidden = trace.value !== "synthetic";
    document.getElementById("size").hidden = document.getElementById("cluster").value !== "";
  };
  const problem = (text) => {
    const said = Controls.make("p", { class: "problem", role: "alert" }, text);
    document.getElementById("about-trace").replaceChildren(said);
  };
  const upload = (file) => {
    const bar = drop.querySelector("progress"),
      most = Number(drop.dataset.most);
    if (file.size > most * 2 ** 20) return problem(`${file.name} has more than ${most} MiB.`);
    const request = new XMLHttpRequest(); // fetch does not say how much is sent
    request.open("PUT", `/what-if/traces?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("X-Form-Token", document.body.dataset.formToken);
    request.setRequestHeader("HX-Request", "true");
    request.upload.onprogress = ({ loaded, total }) => (bar.value = loaded / total);
    request.onerror = () => problem("The file could not be sent.");
    request.onloadend = () => (bar.hidden = true);
    request.onload = () => {
      if (request.status !== 200)
        return problem(new DOMParser().parseFromString(request.responseText, "text/html").body.textContent.trim());
      const name = request.responseText;
      if (![...trace.options].some(({ value }) => value === name)) trace.add(new Option(name, name));
      trace.value = name;
      announce(`${name} is here`);
      trace.dispatchEvent(new Event("change", { bubbles: true }));
    };
    bar.hidden = false;
    request.send(file);
    return undefined;
  };
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
  });
  document.getElementById("file").addEventListener("change", ({ target }) => {
    if (target.files.length) upload(target.files[0]);
    target.value = "";
  });

  // The cluster that suits a trace, by one press.
  const use = (size) => {
    const [nodes, gpus] = size.split("x").map(Number);
    document.getElementById("cluster").value = "";
    for (const [name, value] of [["nodes", nodes], ["gpus", gpus]]) {
      const field = form.elements[name];
      if (value > Number(field.max)) field.max = value;
      field.value = value;
      field.parentElement.querySelector("output").textContent = value;
    }
    form.elements.nodes.dispatchEvent(new Event("change", { bubbles: true }));
  };
  form.addEventListener("click", ({ target }) => target.dataset.cluster && use(target.dataset.cluster));

  // ------------------------------------------------------------------------------------------- policies

  let slots = document.querySelectorAll(".slot").length;
  document.getElementById("add").addEventListener("click", () => {
    htmx.ajax("GET", `/what-if/slot?slot=p${slots++}`, { target: "#slots", swap: "beforeend" });
  });

  let pressed = false;
  form.addEventListener("submit", ({ submitter }) => (pressed = Boolean(submitter)));

  let running = 0;
  form.addEventListener("change", ({ target }) => {
    showKinds();
    if (target.id === "auto" || target.id === "file" || !document.getElementById("auto").checked) return;
    clearTimeout(running);
    running = setTimeout(() => htmx.trigger(form, "submit"), 250);
  });

  // ------------------------------------------------------------------------------------------- progress

  const follow = (frame) => {
    const task = frame.dataset.task,
      source = new EventSource(`/what-if/tasks/${task}/events`),
      grow = Growing.follower(frame.querySelector(".growing"), `/what-if/tasks/${task}/growing`);
    let shown = 0,
      grown = 0;
    source.addEventListener("progress", ({ data }) => {
      const now = JSON.parse(data),
        { done, total, parts } = now;
      if (!frame.isConnected) return source.close(); // another answer has taken its place
      if (parts > shown) {
        shown = parts; // charts grow policy by policy
        htmx.ajax("GET", `/what-if/tasks/${task}/parts`, { target: frame.querySelector(".parts") });
      }
      if (now.grown !== grown) {
        grown = now.grown;
        grow();
      }
      frame.querySelector("progress").value = total ? done / total : 0;
      frame.querySelector(".done").textContent = total ? `${done.toLocaleString("en")} of ${total.toLocaleString("en")} jobs` : "";
      return undefined;
    });
    source.addEventListener("over", () => {
      source.close();
      if (frame.isConnected) htmx.ajax("GET", `/what-if/tasks/${task}`, { target: "#answer" });
    });
  };
  answer.addEventListener("htmx:afterSettle", () => {
    if (pressed && answer.querySelector(".answer, .problem, .progress")) {
      pressed = false; // on a phone the answer is below the form
      answer.scrollIntoView({ block: "start", behavior: "instant" });
      answer.focus({ preventScroll: true });
    }
    const frame = answer.querySelector("[data-task]:not([data-followed])");
    if (!frame) return;
    frame.dataset.followed = "";
    follow(frame);
  });
  showKinds();
})();
