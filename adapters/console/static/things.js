// What the pages of one thing do beside showing it: copying, counting down, stepping a date, and a console that goes on.
"use strict";
(() => {
  const copy = async (button) => {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea"); // no clipboard without HTTPS
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };

  const step = (button) => {
    const field = button.form.elements[button.parentElement.dataset.steps];
    const from = Date.parse(`${field.value}Z`);
    if (Number.isNaN(from)) return;
    field.value = new Date(from + 1000 * Number(button.dataset.seconds)).toISOString().slice(0, 19);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.copy !== undefined) copy(button);
    else if (button?.dataset.seconds !== undefined) step(button);
  });

  // A form that was refused is another one when it is sent again: one that was not heard is the same.
  document.addEventListener("htmx:afterRequest", (event) => {
    const key = (event.target.form || event.target).elements?._key;
    const status = event.detail.xhr?.status || 0;
    if (key && status >= 400 && status < 500) key.value = Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16).padStart(8, "0")).join("");
  });

  const span = (seconds) => {
    const said = [];
    let left = Math.round(seconds);
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
      if (left >= size) { said.push(`${Math.floor(left / size)} ${unit}`); left %= size; }
    }
    return said.slice(0, 2).join(" ") || "0 s";
  };
  const count = () => {
    for (const one of document.querySelectorAll("[data-until]")) {
      const left = (Number(one.dataset.until) - Date.now()) / 1000;
      one.textContent = left > 0 ? span(left) : "over";
    }
  };
  setInterval(count, 1000);
  document.addEventListener("shown", count);

  // --- a console -----------------------------------------------------------------------------------------------------
  // Where it is asked for stands in what shows itself anew, and only while the instance may write.
  const console_ = document.getElementById("console");
  const follow = async () => {
    const from = document.querySelector("[data-console]")?.dataset.console;
    if (from && !document.hidden) {
      try {
        const answer = await fetch(from, { headers: { accept: "text/html", "hx-request": "true" } });
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("written");
        const old = document.getElementById("written");
        if (answer.ok && fresh && old && fresh.dataset.bytes !== old.dataset.bytes) {
          const pre = old.querySelector("pre");
          const atEnd = !pre || pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
          const at = pre?.scrollTop || 0;
          old.replaceWith(fresh);
          const now = fresh.querySelector("pre");
          if (now) now.scrollTop = atEnd ? now.scrollHeight : at;
        }
      } catch { /* the banner of the page says that the server is away */ }
    }
    setTimeout(follow, 3000);
  };
  if (console_) {
    const pre = console_.querySelector("pre");
    if (pre) pre.scrollTop = pre.scrollHeight;
    setTimeout(follow, 3000);
  }
})();
