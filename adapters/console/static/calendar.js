// The calendar's chart: arrow keys go from bar to bar, a drag over free time leads to the form, the line of now moves.
"use strict";
(() => {
  const chart = () => document.querySelector(".gantt");
  const links = () => [...chart().querySelectorAll(".plot a")];
  const began = performance.now();
  let current = null;

  // --- one stop for the tab key, arrows from there --------------------------------------------------------------------
  const settle = () => {
    const all = links();
    const here = all.find((link) => link.id === current) || all[0];
    for (const link of all) link.setAttribute("tabindex", link === here ? "0" : "-1");
  };
  const middle = (link) => {
    const box = link.querySelector("rect").getBoundingClientRect();
    return { x: box.left + box.width / 2, y: box.top + box.height / 2, left: box.left, right: box.right };
  };
  const next = (from, key) => {
    const at = middle(from);
    const along = key === "ArrowLeft" || key === "ArrowRight";
    const sign = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
    let best = null;
    let least = Infinity;
    for (const link of links()) {
      if (link === from) continue;
      const to = middle(link);
      const dx = to.x - at.x;
      const dy = to.y - at.y;
      if (along ? Math.abs(dy) > 3 || dx * sign <= 0 : dy * sign <= 3) continue;
      const aside = to.left <= at.x && at.x <= to.right ? 0 : Math.abs(dx);
      const far = along ? Math.abs(dx) : Math.abs(dy) * 1000 + aside;
      if (far < least) { least = far; best = link; }
    }
    return best;
  };
  document.addEventListener("focusin", (event) => {
    const link = event.target.closest?.(".gantt .plot a");
    if (link && link.id !== current) { current = link.id; settle(); }
  });
  document.addEventListener("keydown", (event) => {
    const from = event.target.closest?.(".gantt .plot a");
    if (!from || !event.key.startsWith("Arrow") || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const to = next(from, event.key);
    if (to) { current = to.id; settle(); to.focus(); }
  });

  // --- a drag over a time ----------------------------------------------------------------------------------------------
  let drag = null;
  const instant = (x) => {
    const { from, until } = chart().dataset;
    const box = chart().querySelector(".plot").getBoundingClientRect();
    return Number(from) + Math.min(1, Math.max(0, (x - box.left) / box.width)) * (until - from);
  };
  const spanned = () => {
    const data = chart().dataset;
    const snap = Number(data.snap);
    const now = Number(data.now) + performance.now() - began;
    const ends = [instant(drag.from), instant(drag.to)].sort((a, b) => a - b);
    const from = Math.max(Math.round(ends[0] / snap) * snap, Number(data.from));
    const until = Math.min(Math.round(ends[1] / snap) * snap, Number(data.until));
    return { from: from > now ? from : null, seconds: Math.floor((until - Math.max(from, now)) / 60000) * 60 };
  };
  const short = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");
  const paint = () => {
    const plot = chart().querySelector(".plot");
    const box = plot.getBoundingClientRect();
    drag.veil ??= plot.appendChild(Object.assign(document.createElement("div"), { className: "veil" }));
    if (!drag.veil.isConnected) plot.append(drag.veil);
    drag.veil.style.left = `${Math.max(0, Math.min(drag.from, drag.to) - box.left)}px`;
    drag.veil.style.width = `${Math.abs(drag.to - drag.from)}px`;
    const { from, seconds } = spanned();
    drag.veil.textContent = seconds < 60 ? "over" : `${from ? short(from) : "now"} · ${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  };
  const stop = () => { drag?.veil?.remove(); drag = null; };
  document.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch" || !event.target.closest?.(".gantt[data-pool] .plot")) return;
    drag = { from: event.clientX, to: event.clientX, far: false };
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag) return;
    drag.to = event.clientX;
    drag.far ||= Math.abs(drag.to - drag.from) > 6;
    if (drag.far) paint();
  });
  document.addEventListener("pointerup", () => {
    if (!drag?.far) { stop(); return; }
    const { from, seconds } = spanned();
    const asked = new URLSearchParams({ poolId: chart().dataset.pool, durationSeconds: seconds });
    if (from) asked.set("startsAt", from);
    const noClick = (event) => { event.preventDefault(); event.stopPropagation(); };
    addEventListener("click", noClick, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", noClick, { capture: true }), 0);
    stop();
    if (seconds >= 60) location.assign(`/reserve?${asked}`);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); });
  document.addEventListener("dragstart", (event) => { if (event.target.closest?.(".gantt")) event.preventDefault(); });

  // --- now ---------------------------------------------------------------------------------------------------------------
  const move = () => {
    const { from, until } = chart().dataset;
    for (const line of document.querySelectorAll(".gantt line.now")) {
      if (document.body.dataset.live === "") continue;
      const share = 100 * (Number(line.dataset.now) + performance.now() - seen - from) / (until - from);
      for (const end of ["x1", "x2"]) line.setAttribute(end, `${Math.min(100, share).toFixed(3)}%`);
    }
  };
  let seen = began;
  document.addEventListener("shown", () => { seen = performance.now(); settle(); });
  settle();
  setInterval(move, 15000);
  const here = chart().querySelector(".plot svg.axis text.now");
  if (here && chart().scrollWidth > chart().clientWidth) {
    const { left } = here.getBoundingClientRect();
    chart().scrollLeft = Math.max(0, left - chart().getBoundingClientRect().left - 220);
  }
})();
