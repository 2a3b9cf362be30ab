// What keeps an open page true: it hears the log, shows itself anew, and says when it cannot.
"use strict";
(() => {
  const SILENCE_MS = 40000; // the server speaks every 15 s
  const GRACE_MS = 8000; // a stream ends each minute and comes back by itself
  const LEAST_MS = 1000; // between two looks
  const AGAIN_MS = 5000; // until what failed is tried again
  const PATIENCE_MS = 10000; // for a new stream to begin
  const body = document.body;
  const wanted = (body.dataset.live || "").split(" ").filter(Boolean);
  const now = () => performance.now(); // the reader's clock may be set meanwhile
  let heard = now();
  let heard_at = Date.now();
  let lost = null;
  let unseen = null; // since when the page cannot be shown anew, and why
  let source = null;
  let tried = 0;
  let position = Number(body.dataset.position || 0);
  let looking = false;
  let again = false;
  let timer = null;
  let pause = LEAST_MS;

  // --- themes, the menu, times -------------------------------------------------------------------------------------
  const root = document.documentElement;
  document.querySelector("[data-theme-switch]")?.addEventListener("click", () => {
    const dark = getComputedStyle(root).getPropertyValue("--is-dark").trim() === "1";
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    document.dispatchEvent(new CustomEvent("theme"));
  });
  const menu = document.querySelector("button.menu");
  menu?.addEventListener("click", () => {
    const open = menu.getAttribute("aria-expanded") !== "true";
    menu.setAttribute("aria-expanded", String(open));
    document.getElementById("nav").classList.toggle("open", open);
  });

  const ago = (seconds) => {
    const future = seconds < 0;
    let left = Math.abs(seconds);
    let said = `${Math.round(left)} s`;
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (left >= size) { said = `${Math.floor(left / size)} ${unit}`; break; }
    }
    return future ? `in ${said}` : `${said} ago`;
  };
  const times = () => {
    for (const time of document.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      time.title = `${ago((Date.now() - at) / 1000)} · ${at.toLocaleString()} here`;
    }
  };

  // --- live --------------------------------------------------------------------------------------------------------
  const stale = document.getElementById("stale");
  const hear = () => { heard = now(); heard_at = Date.now(); };
  const clock = (ms) => new Date(ms).toLocaleTimeString();
  const trouble = () => {
    if (unseen?.final) return `Not live since ${clock(unseen.at)}: this page is refused, ${unseen.why}. What you see is of before; load it again.`;
    if (unseen) return `Not live since ${clock(unseen.at)}: ${unseen.why}. Trying again; what you see may have changed.`;
    const silent = now() - heard > SILENCE_MS || (lost !== null && now() - lost > GRACE_MS);
    return silent ? `Not live since ${clock(heard_at)}: nothing is heard from the server. Trying again; what you see may have changed.` : "";
  };
  const say = () => {
    const text = trouble();
    stale.hidden = !text;
    if (stale.textContent !== text) stale.textContent = text;
    const silent = now() - heard > SILENCE_MS && now() - tried > PATIENCE_MS;
    if (silent && source) { source.close(); source = null; listen(); }
  };

  const concerns = (streams) =>
    wanted.includes("*") || streams.some((id) => wanted.includes(id) || wanted.includes(id.split("_")[0]));

  const listen = () => {
    if (source || !wanted.length || document.hidden) return;
    tried = now();
    source = new EventSource(position ? `/live?after=${position}` : "/live");
    source.onopen = () => { hear(); lost = null; say(); };
    source.onerror = () => {
      lost ??= now();
      if (source?.readyState === EventSource.CLOSED) { source = null; setTimeout(listen, 5000); look(); }
    };
    source.addEventListener("beat", hear);
    source.addEventListener("log", (event) => {
      hear();
      position = Math.max(position, Number(event.lastEventId));
      const streams = JSON.parse(event.data);
      document.dispatchEvent(new CustomEvent("heard", { detail: { streams, position } }));
      if (concerns(streams)) look();
    });
  };

  const look = () => {
    if (looking) { again = true; return; }
    if (timer === null) timer = setTimeout(show, pause);
  };

  const kept = (element) =>
    element.nodeType === 1 &&
    (element.hasAttribute("data-keep") && (element.open || element.contains(document.activeElement) || element.dataset.keep === "always"));

  // What was to be shown is still owed: nothing else may come that would make the page look again.
  const failed = (why, final) => {
    if (!born || !final) unseen = { since: now(), at: Date.now(), ...unseen, why, final };
  };
  // A page that was a refusal from the beginning: what the server could not show then it may show soon.
  const born = Number(document.querySelector("#live [data-refused]")?.dataset.refused || 0);
  const passing = (status) => status === 429 || status >= 500;

  const show = async () => {
    timer = null;
    looking = true;
    const begun = performance.now();
    try {
      const url = new URL(location.href);
      if (position) url.searchParams.set("waitFor", position);
      const answer = await fetch(url, { headers: { accept: "text/html" }, redirect: "follow" });
      if (answer.redirected && new URL(answer.url).pathname === "/sign-in") { location.assign(answer.url); return; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      if (answer.ok && passing(born)) { location.reload(); return; }
      if (answer.ok && fresh) {
        const here = document.getElementById("live");
        Idiomorph.morph(here, fresh, {
          morphStyle: "outerHTML",
          ignoreActiveValue: true,
          callbacks: {
            beforeNodeMorphed: (old) => !kept(old),
            beforeNodeRemoved: (old) => !kept(old),
          },
        });
        htmx.process(document.getElementById("live"));
        unseen = null;
        times();
        document.dispatchEvent(new CustomEvent("shown"));
      } else failed(page.querySelector(".problem strong")?.textContent || `the server answers ${answer.status}`, !passing(answer.status));
    } catch {
      failed("the server does not answer", false);
    }
    say();
    looking = false;
    if (unseen && !unseen.final) setTimeout(look, AGAIN_MS);
    pause = Math.max(LEAST_MS, 5 * (performance.now() - begun));
    if (again) { again = false; look(); }
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else if (wanted.length) { listen(); look(); }
  });
  // What was done is said below, and its form folds, so that the page offers what may be done now.
  const toast = document.getElementById("said");
  let fading = null;
  document.addEventListener("htmx:afterSwap", (event) => {
    const said = event.detail.target;
    const act = said.closest("details.act");
    if (!act || !said.querySelector(".done") || said.querySelector(".secret")) return; // a refusal stays in its form
    toast.textContent = said.textContent.trim();
    clearTimeout(fading);
    fading = setTimeout(() => { toast.textContent = ""; }, 8000);
    said.replaceChildren();
    act.open = false;
    document.getElementById("main").focus({ preventScroll: true });
  });
  document.addEventListener("changed", (event) => {
    position = Math.max(position, event.detail?.position || 0);
    look();
  });

  // --- the time slider -----------------------------------------------------------------------------------------------
  // Quadratic: the last minutes have as much room as the days before them.
  const slider = document.querySelector("[data-time-slider]");
  if (slider) {
    const field = slider.form.elements.asOf;
    const now = Number(slider.dataset.now);
    const began = Number(slider.dataset.began || now - 7 * 86400000);
    const max = Number(slider.max);
    const instant = () => now - ((max - slider.value) / max) ** 2 * (now - began);
    const text = (ms) => new Date(ms).toISOString().slice(0, 19);
    if (field.value) slider.value = Math.round(max * (1 - Math.sqrt(Math.max(0, (now - Date.parse(`${field.value}Z`)) / (now - began)))));
    const told = () => slider.setAttribute("aria-valuetext", Number(slider.value) === max ? "now" : `${text(instant())} UTC`);
    told();
    slider.addEventListener("input", () => { field.value = text(instant()); told(); });
    slider.addEventListener("change", () => {
      if (Number(slider.value) < max) slider.form.requestSubmit();
      else if (slider.form.classList.contains("past")) location.assign(slider.form.querySelector("a.button").href);
    });
  }

  times();
  setInterval(times, 10000);
  if (wanted.length || passing(born)) setInterval(say, 1000);
  if (wanted.length) listen();
  if (passing(born)) setTimeout(look, AGAIN_MS);
})();
