// The map of all nodes: one cell each, drawn where the reader looks; it takes in what changed, never all of it again.
"use strict";
(() => {
  const section = document.querySelector("[data-fleet-map]");
  if (!section || section.hidden) return;
  const PAGES = 5; // answers of 20,000 nodes
  const REST_MS = 1500; // between two looks at what changed
  const BLOCK = 4; // cells beside each other in a rack
  const form = section.querySelector("form");
  const box = section.querySelector(".cells");
  const canvas = box.querySelector("canvas");
  const extent = box.querySelector(".extent");
  const legend = section.querySelector(".legend");
  const said = section.querySelector(".cell");
  const status = section.querySelector(".state-of-map");
  const paint = canvas.getContext("2d");

  // --- what a node's state is, by axis: [key, said, colour, mark] ---------------------------------------------------------
  const words = (name) => name.replace(/([A-Z])/g, " $1").trim().toLowerCase();
  const in_service = (node) => !node.reasons;
  const OVERALL = [
    ["lost", "lost", "--bad", "cross", (n) => n.connectivity === "lost"],
    ["failed", "failed", "--bad", "dot", (n) => n.provisionState === "failed"],
    ["unreachable", "unreachable", "--bad", "slash", (n) => n.connectivity === "unreachable"],
    ["joining", "not provisioned", "--quiet", "ring", (n) => !["adopted", "deployed"].includes(n.provisionState)],
    ["disconnected", "disconnected", "--warn", "slash", (n) => n.connectivity === "disconnected"],
    ["agent", "site agent, or in no pool", "--quiet", "dot", (n) => n.reasons && "NotHost" in n.reasons],
    ["maintenance", "in maintenance", "--reserved", "bar", (n) => n.reasons && "Maintenance" in n.reasons],
    ["draining", "draining", "--allocated", "half", (n) => n.drain === "draining"],
    ["drained", "drained", "--allocated", "ring", (n) => n.drain === "drained"],
    ["cordoned", "cordoned", "--warn", "ring", (n) => n.reasons && "Cordoned" in n.reasons],
    ["other", "not in service for another reason", "--unschedulable", "dot", (n) => !in_service(n)],
    ["service", "in service", "--available", "", () => true],
  ];
  const one_of = (of, table) => table.map(([key, colour, mark]) => [key, words(key), colour, mark, (n) => of(n) === key]);
  const CONNECTIVITY = one_of((n) => n.connectivity, [
    ["lost", "--bad", "cross"], ["unreachable", "--bad", "slash"], ["disconnected", "--warn", "slash"], ["connected", "--available", ""],
  ]);
  const PROVISION = one_of((n) => n.provisionState, [
    ["failed", "--bad", "dot"], ["retiring", "--quiet", "slash"], ["retired", "--quiet", "cross"], ["rescue", "--warn", "slash"],
    ["releasing", "--warn", "half"], ["enrolling", "--reserved", "ring"], ["inspecting", "--reserved", "bar"], ["commissioning", "--reserved", "half"],
    ["ready", "--allocated", "ring"], ["deploying", "--allocated", "half"], ["adopting", "--allocated", "bar"],
    ["adopted", "--available", ""], ["deployed", "--available", "bar"],
  ]);
  const SERVICE = OVERALL.filter(([key]) => ["maintenance", "draining", "drained", "cordoned"].includes(key)).concat([
    ["open", "neither cordoned nor in maintenance", "--available", "", () => true],
  ]);
  const BLOCKING = ["DuplicateHardware", "GpuModelUnknown", "GpuModelMismatch", "AcceptanceFailed", "PartitionPending"];
  const HEALTH = [
    ["blocked", "its hardware keeps it out of service", "--bad", "cross", (n) => BLOCKING.some((name) => n.conditions && name in n.conditions)],
    ["missing", "a booked device is missing", "--bad", "slash", (n) => n.conditions && "BookedDeviceMissing" in n.conditions],
    ["noted", "something was observed", "--warn", "dot", (n) => Boolean(n.conditions)],
    ["healthy", "nothing was observed", "--available", "", () => true],
  ];
  const AXES = { "": OVERALL, connectivity: CONNECTIVITY, provision: PROVISION, service: SERVICE, health: HEALTH };
  const state_of = (node) => axis().find((state) => state[4](node)) ?? ["other", "other", "--quiet", "dot"];

  // --- what is known ------------------------------------------------------------------------------------------------------
  const nodes = new Map();
  let sites = {};
  let pools = {};
  let position = 0;
  let cut = false;
  const NAMES = ["site", "pool", "rack", "axis", "state"];
  const query = new URLSearchParams(location.search);
  const wanted = Object.fromEntries(NAMES.map((name) => [name, query.get(name) || ""]));
  const axis = () => AXES[wanted.axis] ?? OVERALL;

  const take = (answer) => {
    for (const node of answer.nodes) {
      if (node.provisionState === "retired") nodes.delete(node.id);
      else nodes.set(node.id, node);
    }
  };
  const ask = async (more) => {
    const url = new URL(section.dataset.fleetMap, location.href);
    for (const [name, value] of Object.entries(more)) url.searchParams.set(name, value);
    const answer = await fetch(url, { headers: { accept: "application/json" } });
    if (!answer.ok || answer.redirected) throw new Error(`${answer.status}`);
    return answer.json();
  };
  const load = async () => {
    let answer = await ask({});
    ({ sites, pools } = answer);
    position = answer.position; // of the first page: what changed since comes again
    take(answer);
    for (let page = 1; answer.nextCursor && page < PAGES; page++) take((answer = await ask({ cursor: answer.nextCursor })));
    cut = Boolean(answer.nextCursor);
    performance.mark("fleet-map-data");
    options();
    lay();
    performance.mark("fleet-map-drawn");
  };
  // Once in a while at most, and of what changed alone: an event of a node need not change its cell.
  let resting = null;
  let heard = 0;
  const follow = (upto) => {
    heard = Math.max(heard, upto);
    if (section.dataset.live === "yes" && position && heard > position) resting ??= setTimeout(refresh, REST_MS);
  };
  const refresh = async () => {
    const upto = heard;
    try {
      const answer = await ask({ after: position, waitFor: upto });
      if (answer.nextCursor) await load();
      else {
        position = Math.max(upto, answer.position);
        if (answer.nodes.length) { take(answer); options(); lay(); }
      }
    } catch { tell("The map could not be brought up to date; it is tried again with the next change."); }
    resting = null;
    if (heard > upto) follow(heard);
  };
  document.addEventListener("heard", (event) => {
    if (event.detail.streams.some((id) => id.startsWith("node_"))) follow(event.detail.position);
  });

  // --- where each cell is -------------------------------------------------------------------------------------------------
  let groups = []; // headings: {y, text}; racks: {x, y, text}
  let cells = []; // {x, y, node, state}, in reading order
  let racks = []; // index of each rack's first cell
  let pitch = 14;
  const by_name = new Intl.Collator("en", { numeric: true }).compare;
  const order = (node) => [sites[node.siteId] ?? node.siteId, node.poolId ? pools[node.poolId] ?? node.poolId : "", node.rack ?? ""];
  const in_place = (node) => (!wanted.site || node.siteId === wanted.site) && (!wanted.pool || node.poolId === wanted.pool)
    && (!wanted.rack || (node.rack ?? "") === wanted.rack);

  // Racks in the order of their places, what is nowhere last: each as [place, its nodes by name].
  const racked = (list) => {
    const found = new Map();
    for (const node of list) {
      const place = order(node);
      const key = place.join("\n");
      if (!found.has(key)) found.set(key, [place, []]);
      found.get(key)[1].push(node);
    }
    const last = (a, b) => (a === "") - (b === "") || by_name(a, b);
    for (const [, of] of found.values()) of.sort((a, b) => by_name(a.name, b.name));
    return [...found.values()].sort(([a], [b]) => by_name(a[0], b[0]) || last(a[1], b[1]) || last(a[2], b[2]));
  };

  const place = (shown, width) => {
    groups = []; cells = []; racks = [];
    let [x, y, deep, group] = [0, 4, 0, ""];
    for (const [[site, pool, rack], of] of racked(shown)) {
      const heading = `${site} · ${pool || "in no pool"}`;
      const across = rack ? BLOCK : Math.max(BLOCK, Math.floor(width / pitch));
      if (heading !== group) {
        y += deep + (group ? 10 : 0); x = 0; deep = 0; group = heading;
        groups.push({ x, y: y + 14, text: heading, bold: true }); y += 22;
      } else if (!rack || x + BLOCK * pitch > width) { x = 0; y += deep + 6; deep = 0; }
      groups.push({ x, y: y + 10, text: rack || "no rack", room: BLOCK * pitch - 2 });
      racks.push(cells.length);
      of.forEach((node, n) => cells.push({ x: x + (n % across) * pitch, y: y + 14 + Math.floor(n / across) * pitch, node, state: state_of(node) }));
      deep = Math.max(deep, 14 + Math.ceil(of.length / across) * pitch);
      x += BLOCK * pitch + 10;
    }
    return y + deep + 4;
  };

  const lay = () => {
    const counts = new Map();
    const shown = [];
    for (const node of [...nodes.values()].filter(in_place)) {
      const [key] = state_of(node);
      counts.set(key, (counts.get(key) ?? 0) + 1);
      if (!wanted.state || key === wanted.state) shown.push(node);
    }
    pitch = shown.length > 2000 ? 12 : shown.length > 400 ? 16 : 22;
    const at = cells[focus]?.node.id;
    const height = place(shown, box.clientWidth - 14);
    extent.style.height = `${height}px`;
    box.style.height = `${height + 12}px`;
    focus = Math.max(0, cells.findIndex((cell) => cell.node.id === at));
    if (document.activeElement === box && cells.length && said.textContent !== describe(cells[focus])) said.textContent = describe(cells[focus]);
    explain(counts);
    const [count, all] = [cells.length, nodes.size].map((number) => number.toLocaleString("en"));
    tell(`${count} of ${all} nodes shown${cut ? "; there are more than a map takes: the table has them all" : ""}.`);
    draw();
  };

  // --- drawing: what is in sight alone ------------------------------------------------------------------------------------
  const MARKS = {
    cross: (x, y, s) => { paint.moveTo(x + 2, y + 2); paint.lineTo(x + s - 2, y + s - 2); paint.moveTo(x + s - 2, y + 2); paint.lineTo(x + 2, y + s - 2); },
    slash: (x, y, s) => { paint.moveTo(x + 2, y + s - 2); paint.lineTo(x + s - 2, y + 2); },
    bar: (x, y, s) => { paint.moveTo(x + 2, y + s / 2); paint.lineTo(x + s - 2, y + s / 2); },
    dot: (x, y, s) => { paint.rect(x + s / 2 - 1, y + s / 2 - 1, 2, 2); },
    ring: (x, y, s) => { paint.rect(x + s / 4, y + s / 4, s / 2, s / 2); },
    half: (x, y, s) => { for (let at = 2; at < s - 2; at += 2) { paint.moveTo(x + 2, y + s - at); paint.lineTo(x + at, y + s - at); } },
  };
  let frame = null;
  const draw = () => { frame ??= requestAnimationFrame(drawn); };
  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue(name).trim();
  };
  const drawn = () => {
    frame = null;
    const scale = window.devicePixelRatio || 1;
    const [width, tall] = [box.clientWidth, box.clientHeight];
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(tall * scale)) {
      canvas.width = Math.round(width * scale); canvas.height = Math.round(tall * scale);
      canvas.style.width = `${width}px`; canvas.style.height = `${tall}px`;
      canvas.style.marginBottom = `${-tall}px`;
    }
    const colour = colours();
    const top = box.scrollTop;
    paint.setTransform(scale, 0, 0, scale, 0, -top * scale);
    paint.clearRect(0, top, width, tall);
    const near = (y) => y > top - 40 && y < top + tall + 40;
    paint.fillStyle = colour("--soft");
    for (const group of groups) {
      if (!near(group.y)) continue;
      paint.font = group.bold ? "600 13px system-ui, sans-serif" : "10px system-ui, sans-serif";
      paint.fillText(group.text, group.x, group.y, group.room);
    }
    const size = pitch - 2;
    for (const state of new Set(cells.map((cell) => cell.state))) {
      const here = cells.filter((cell) => cell.state === state && near(cell.y));
      paint.fillStyle = colour(state[2]);
      paint.beginPath();
      for (const { x, y } of here) paint.rect(x, y, size, size);
      paint.fill();
      if (!state[3]) continue;
      paint.strokeStyle = colour("--paper"); paint.lineWidth = 1.5;
      paint.beginPath();
      for (const { x, y } of here) MARKS[state[3]](x, y, size);
      paint.stroke();
    }
    if (cells[focus] && document.activeElement === box) {
      const { x, y } = cells[focus];
      paint.strokeStyle = colour("--ink"); paint.lineWidth = 2;
      paint.strokeRect(x - 1, y - 1, size + 2, size + 2);
    }
  };

  // --- words --------------------------------------------------------------------------------------------------------------
  const tell = (text) => { if (status.textContent !== text) status.textContent = text; };
  const explain = (counts) => {
    const of = axis().filter((state) => counts.has(state[0]) || state[0] === wanted.state);
    while (legend.children.length > of.length) legend.lastElementChild.remove();
    of.forEach(([key, text, colour, mark], n) => {
      const item = legend.children[n] ?? legend.appendChild(document.createElement("li"));
      const button = item.firstElementChild ?? item.appendChild(document.createElement("button"));
      if (!button.firstElementChild) { button.type = "button"; button.append(document.createElement("canvas"), document.createElement("span")); }
      button.dataset.state = key;
      button.setAttribute("aria-pressed", String(wanted.state === key));
      button.lastElementChild.textContent = `${text} ${(counts.get(key) ?? 0).toLocaleString("en")}`;
      swatch(button.firstElementChild, colour, mark);
    });
  };
  const swatch = (at, colour, mark) => {
    const kept = paint_of(at);
    const look = colours();
    kept.fillStyle = look(colour); kept.fillRect(0, 0, 24, 24);
    if (!mark) return;
    kept.strokeStyle = look("--paper"); kept.lineWidth = 3; kept.beginPath();
    const lines = new Path2D(SWATCHES[mark]);
    kept.stroke(lines);
  };
  const SWATCHES = {
    cross: "M4 4L20 20M20 4L4 20", slash: "M4 20L20 4", bar: "M4 12H20", dot: "M10 12H14M12 10V14", ring: "M6 6H18V18H6Z", half: "M4 20L4 8M8 20V12M12 20V16",
  };
  const paint_of = (at) => { at.width = 24; at.height = 24; return at.getContext("2d"); };
  const since = (ms) => `${new Date(ms).toISOString().slice(0, 16).replace("T", " ")} UTC`;
  const describe = ({ node, state }) => {
    const [site, pool, rack] = order(node);
    const why = Object.entries(node.reasons ?? {}).map(([name, at]) => `${words(name)} since ${since(at)}`);
    const seen = Object.keys(node.conditions ?? {}).filter((name) => !(node.reasons && name in node.reasons)).map(words);
    return [`${node.name}: ${state[1]}`, ...why, ...seen, `${site}, ${pool || "no pool"}${rack ? `, rack ${rack}` : ""}`].join("; ");
  };

  // --- filters ------------------------------------------------------------------------------------------------------------
  const fill = (name, pairs) => {
    const select = form.elements[name];
    const now = pairs.sort((a, b) => by_name(a[1], b[1]));
    if (wanted[name] && !now.some(([key]) => key === wanted[name])) now.push([wanted[name], wanted[name]]);
    const key = JSON.stringify(now);
    if (select.dataset.has !== key) {
      select.dataset.has = key;
      select.replaceChildren(select.options[0], ...now.map(([value, text]) => new Option(text, value)));
    }
    select.value = wanted[name];
  };
  const options = () => {
    const all = [...nodes.values()];
    const there = all.filter((node) => !wanted.site || node.siteId === wanted.site);
    const inside = there.filter((node) => !wanted.pool || node.poolId === wanted.pool);
    const pairs = (list, field, names) => [...new Set(list.map((node) => node[field]).filter(Boolean))].map((key) => [key, names[key] ?? key]);
    fill("site", pairs(all, "siteId", sites));
    fill("pool", pairs(there, "poolId", pools));
    fill("rack", pairs(inside, "rack", {}));
    form.elements.axis.value = wanted.axis;
    const table = section.querySelector("[data-table]");
    const address = new URL(table.href);
    for (const [name, value] of [["siteId", wanted.site], ["poolId", wanted.pool], ["rack", wanted.rack]]) {
      if (value) address.searchParams.set(name, value); else address.searchParams.delete(name);
    }
    table.href = address;
  };
  const changed = () => {
    const url = new URL(location.href);
    for (const name of NAMES) if (wanted[name]) url.searchParams.set(name, wanted[name]); else url.searchParams.delete(name);
    history.replaceState(null, "", url);
    options();
    lay();
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => {
    wanted[event.target.name] = event.target.value;
    for (const narrower of { axis: ["state"], site: ["pool", "rack"], pool: ["rack"] }[event.target.name] ?? []) wanted[narrower] = "";
    changed();
  });
  legend.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    wanted.state = wanted.state === button.dataset.state ? "" : button.dataset.state;
    changed();
  });

  // --- keyboard and pointer -----------------------------------------------------------------------------------------------
  let focus = 0;
  const open = (cell) => { if (cell) location.assign(`/nodes/${cell.node.id}${query.has("asOf") ? `?asOf=${encodeURIComponent(query.get("asOf"))}` : ""}`); };
  const go = (to) => {
    if (!cells.length) return;
    focus = Math.min(cells.length - 1, Math.max(0, to));
    const { y } = cells[focus];
    if (y < box.scrollTop + 30) box.scrollTop = y - 40;
    else if (y + pitch > box.scrollTop + box.clientHeight) box.scrollTop = y + pitch + 10 - box.clientHeight;
    said.textContent = describe(cells[focus]);
    draw();
  };
  const beside = (down) => {
    const from = cells[focus];
    let best = focus; let near = Infinity;
    cells.forEach((cell, n) => {
      const dy = (cell.y - from.y) * down;
      const far = dy <= 0 ? Infinity : dy * 4 + Math.abs(cell.x - from.x);
      if (far < near) { near = far; best = n; }
    });
    return best;
  };
  const rack_at = () => racks.findLastIndex((first) => first <= focus);
  const KEYS = {
    ArrowRight: () => focus + 1, ArrowLeft: () => focus - 1, ArrowDown: () => beside(1), ArrowUp: () => beside(-1),
    Home: () => 0, End: () => cells.length - 1,
    PageDown: () => racks[rack_at() + 1] ?? cells.length - 1, PageUp: () => racks[Math.max(0, rack_at() - 1)],
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !cells.length) return;
    if (event.key === "Enter") { open(cells[focus]); return; }
    const to = KEYS[event.key];
    if (!to) return;
    event.preventDefault();
    go(to());
  });
  box.addEventListener("focus", () => go(focus));
  box.addEventListener("blur", draw);
  const under = (event) => {
    const at = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - at.left, event.clientY - at.top + box.scrollTop];
    return cells.findIndex((cell) => x >= cell.x && x < cell.x + pitch && y >= cell.y && y < cell.y + pitch);
  };
  box.addEventListener("pointermove", (event) => {
    const n = under(event);
    box.classList.toggle("on-cell", n >= 0);
    box.title = n >= 0 ? describe(cells[n]) : "";
  });
  box.addEventListener("click", (event) => { const n = under(event); if (n >= 0) open(cells[n]); });
  box.addEventListener("scroll", draw, { passive: true });
  let wide = 0;
  new ResizeObserver(() => {
    const before = wide;
    wide = box.clientWidth;
    if (nodes.size && wide !== before) lay();
  }).observe(box);
  document.addEventListener("theme", () => { lay(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { lay(); });
  load().catch(() => tell("The map could not be loaded. Load the page again; the table shows the same."));
})();
