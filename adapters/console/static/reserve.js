// The form of a claim: its classes and binding follow the pool, rows are added, and fields that were refused say so.
"use strict";
(() => {
  const form = document.getElementById("reserve");
  if (!form) return;
  const preview = document.getElementById("preview");
  const heard = document.getElementById("heard");
  const typed = (element) => element.dispatchEvent(new Event("input", { bubbles: true }));

  // --- what the pool sells -------------------------------------------------------------------------------------------
  const pool = form.elements.poolId;
  const classes = () => (pool.selectedOptions[0]?.dataset.classes || "").split(" ").filter(Boolean);
  const narrow = () => {
    const sold = classes();
    for (const select of form.querySelectorAll("select[name$='.class']")) {
      for (const option of select.options) option.disabled = option.value !== "" && !sold.includes(option.value);
    }
  };
  const follow = () => {
    narrow();
    for (const select of form.querySelectorAll("select[name$='.class']")) {
      if (!select.selectedOptions[0]?.disabled) continue;
      select.value = select.name === "devices[0].class" ? classes()[0] : "";
    }
    form.elements.binding.value = pool.selectedOptions[0]?.dataset.binding || "hold";
  };
  pool.addEventListener("input", follow);
  narrow();

  // --- rows ----------------------------------------------------------------------------------------------------------
  const another = document.getElementById("another");
  const add = () => {
    const rows = form.querySelectorAll("fieldset.line");
    const last = rows[rows.length - 1];
    const row = last.cloneNode(true);
    for (const field of row.querySelectorAll("input, select")) {
      field.name = field.name.replace(/\[\d+\]/, `[${rows.length}]`);
      field.removeAttribute("aria-invalid");
      field.value = "";
    }
    row.querySelector("legend").textContent = `Row ${rows.length + 1}`;
    last.after(row);
    another.hidden = rows.length + 1 >= Number(another.dataset.most);
    row.querySelector("select").focus();
  };
  if (another) {
    another.hidden = form.querySelectorAll("fieldset.line").length >= Number(another.dataset.most);
    another.addEventListener("click", add);
  }
  // A count without a class, or a class without a count, is half said: the other half is what most people mean.
  form.addEventListener("input", (event) => {
    const match = /^(devices\[\d+\])\.(class|count)$/.exec(event.target.name || "");
    if (!match) return;
    const kind = form.elements[`${match[1]}.class`];
    const count = form.elements[`${match[1]}.count`];
    if (match[2] === "class" && kind.value && !count.value) count.value = "1";
    if (match[2] === "count" && count.value && !kind.value) kind.value = classes().find((one) => form.elements["devices[0].class"].value !== one) || "";
  }, true);

  // --- the preview ---------------------------------------------------------------------------------------------------
  // Enter previews, and the address is then one that can be sent to somebody.
  form.addEventListener("submit", (event) => {
    if (event.submitter?.formMethod === "post") return;
    event.preventDefault();
    const said = [...new FormData(form)].filter(([name, value]) => !name.startsWith("_") && value !== "");
    history.replaceState(null, "", `/reserve?${new URLSearchParams(said)}`);
    typed(form);
  });
  // What others do changes it too; htmx's own throttle would hold up what is typed as well.
  let soon = null;
  document.addEventListener("shown", () => {
    soon ??= setTimeout(() => { soon = null; preview.dispatchEvent(new Event("again")); }, 3000);
  });
  const mark = () => {
    for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
    for (const wrong of preview.querySelectorAll("[data-field]")) {
      const field = form.elements[wrong.dataset.field] || form.elements[wrong.dataset.field.replace(/\.([^.]+)$/, "{$1}")];
      if (!field?.setAttribute) continue;
      field.setAttribute("aria-invalid", "true");
      field.closest("details")?.setAttribute("open", "");
    }
  };
  const told = () => { heard.textContent = [preview.querySelector(".headline"), preview.querySelector(".problem, .obstacles")].map((one) => one?.textContent.trim().replace(/\s+/g, " ") || "").join(". "); };
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target !== preview) return;
    mark();
    told();
    preview.classList.remove("old");
  });
  for (const failed of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(failed, (event) => {
      if (event.target !== preview) return;
      preview.classList.add("old");
      heard.textContent = "The server did not answer; the preview is of before.";
    });
  }
  mark();
})();
