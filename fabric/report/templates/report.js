"use strict";
(async function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id), ARRAYS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array };
  async function unpacked(column) {
    const bytes = Uint8Array.from(atob(column.data), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    column.codes = new ARRAYS[column.bytes](await new Response(stream).arrayBuffer());
    column.number = column.values.length > 0 && typeof column.values[0] === "number";
    // Codes count from 1; 0 is no value. Numbers are in order; texts get their place in it when they are sorted.
    column.texts = ["", ...column.values.map((value) => column.number ? value.toLocaleString("en") : value)];
  }
  await Promise.all(data.columns.map(unpacked));
  const named = Object.fromEntries(data.columns.map((column) => [column.name, column])), PAGE = 100;
  let shown = [], page = 0, sorted = null, upward = true;

  // For each column, which of its values a word fits: then a row is a few look-ups, not a search for text.
  function fits(word) {
    const exact = word[0] === "=", sought = exact ? word.slice(1) : word.toLowerCase();
    const found = (text) => exact ? text.split(/[^A-Za-z0-9_-]+/).includes(sought) : text.toLowerCase().includes(sought);
    return data.columns.filter((column) => !column.number).map((column) => {
      const hits = Uint8Array.from(column.texts, (text) => found(text) ? 1 : 0);
      if (column === named.host) for (const [code, members] of Object.entries(data.members)) {
        if (members.some(found)) hits[Number(code) + 1] = 1;
      }
      return [column.codes, hits];
    });
  }
  function filter() {
    const tests = $("words").value.split(/\s+/).filter(Boolean).slice(0, 8).map(fits);
    const wanted = $("outcome").value, outcomes = named.outcome;
    const ok = outcomes.texts.map((text) => !wanted || (wanted === "-" ? text !== "PASS" : text === wanted));
    shown = [];
    for (let row = 0; row < data.rows; row++) {
      if (ok[outcomes.codes[row]] && tests.every((test) => test.some(([codes, hits]) => hits[codes[row]]))) shown.push(row);
    }
    if (sorted) order(); else { page = 0; draw(); }
  }
  function order() {
    const place = sorted.texts.map((_, code) => code), text = (code) => sorted.texts[code];
    if (!sorted.number) [...place].sort((a, b) => text(a) < text(b) ? -1 : 1).forEach((code, at) => { place[code] = at; });
    const codes = sorted.codes, way = upward ? 1 : -1;
    // What has no value comes last, either way.
    shown.sort((a, b) => (codes[a] === 0) - (codes[b] === 0) || way * (place[codes[a]] - place[codes[b]]) || a - b);
    page = 0;
    draw();
  }
  function cell(name, text, cls) {
    const made = document.createElement(name);
    made.textContent = text;
    if (cls) made.className = cls;
    return made;
  }
  function draw() {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE)), body = document.querySelector("#table tbody");
    page = Math.min(Math.max(page, 0), pages - 1);
    body.textContent = "";
    for (const row of shown.slice(page * PAGE, (page + 1) * PAGE)) {
      const line = document.createElement("tr");
      for (const column of data.columns) {
        const text = column.texts[column.codes[row]];
        const made = cell("td", column === named.outcome ? "" : text, column.number ? "n" : column.name);
        made.dataset.head = column.name;
        // A list of hosts goes on below only after a comma, so that no name is torn.
        if (column === named.host) made.replaceChildren(...text.split(/(?<=,)/).flatMap((part, at) => at ? [document.createElement("wbr"), part] : [part]));
        if (column === named.outcome) made.append(cell("span", text, "badge o-" + text.toLowerCase()));
        line.append(made);
      }
      body.append(line);
    }
    const rest = data.left_out ? `; ${data.left_out.toLocaleString("en")} more are in measurements.parquet` : "";
    $("found").textContent = `${shown.length.toLocaleString("en")} of ${data.rows.toLocaleString("en")} rows${rest}`;
    $("where").textContent = `page ${page + 1} of ${pages}`;
  }
  function heads() {
    const line = document.createElement("tr");
    for (const column of data.columns) {
      const head = cell("th", column.name, column.number ? "n" : column.name);
      head.tabIndex = 0;
      head.addEventListener("click", () => {
        upward = sorted === column ? !upward : true;
        sorted = column;
        line.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", upward ? "ascending" : "descending");
        order();
      });
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") head.click(); });
      line.append(head);
    }
    document.querySelector("#table thead").append(line);
  }
  // #gpu017/mlx5_3 opens the rows of that part of that host.
  function follow() {
    let asked;
    try { asked = decodeURIComponent(location.hash.slice(1)); } catch (problem) { return; }
    const parts = asked.split("/").filter(Boolean).slice(0, 4);
    if (!parts.length || document.getElementById(asked) || !named.host.values.some((text) => text.split(" + ").includes(parts[0]))) return;
    $("words").value = parts.map((part) => "=" + part).join(" ");
    $("outcome").value = "";
    sorted = null;
    filter();
    $("measurements").scrollIntoView();
  }
  document.querySelectorAll("button.deep").forEach((button) => button.addEventListener("click", () => {
    location.hash = encodeURIComponent(button.dataset.to);
    follow();
  }));
  let waiting = 0;
  $("filters").hidden = false;
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("words").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  $("outcome").addEventListener("change", filter);
  $("back").addEventListener("click", () => { page--; draw(); });
  $("next").addEventListener("click", () => { page++; draw(); });
  window.addEventListener("hashchange", follow);
  heads();
  filter();
  follow();
  document.documentElement.setAttribute("data-ready", "yes");
})();
