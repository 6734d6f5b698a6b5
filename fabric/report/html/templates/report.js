"use strict";
(function () {
  var data = JSON.parse(document.getElementById("data").textContent);
  var ARRAYS = { B: Uint8Array, H: Uint16Array, I: Uint32Array, f: Float32Array };
  function column(name) {
    var packed = data.columns[name], text = atob(packed.data), bytes = new Uint8Array(text.length);
    for (var i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new ARRAYS[packed.type](bytes.buffer);
  }
  var who = column("who"), what = column("what"), limit = column("limit"), shape = column("shape");
  var reason = column("reason"), outcome = column("outcome"), value = column("value");
  var probes = who.length, first = new Uint32Array(probes + 1), total = 0, p;
  for (p = 0; p < probes; p++) { first[p] = total; total += data.shapes[shape[p]].length; }
  first[probes] = total;
  // A row is a measurement; a probe without any has one row that says why.
  var rows = 0;
  for (p = 0; p < probes; p++) rows += Math.max(1, data.shapes[shape[p]].length);
  var rowProbe = new Uint32Array(rows), rowIndex = new Uint16Array(rows), r = 0, k;
  for (p = 0; p < probes; p++) {
    var n = Math.max(1, data.shapes[shape[p]].length);
    for (k = 0; k < n; k++) { rowProbe[r] = p; rowIndex[r] = k; r++; }
  }
  function isHost(entry) { return typeof entry === "number"; }
  function whoText(entry) { return isHost(entry) ? data.hosts[entry] : entry[0]; }
  var whoTexts = data.who.map(whoText);
  function measured(row) { return data.shapes[shape[rowProbe[row]]][rowIndex[row]]; }
  function number(row) {
    return measured(row) ? value[first[rowProbe[row]] + rowIndex[row]] : NaN;
  }
  function size(bytes) {
    if (!bytes) return "";
    var steps = [["T", 40], ["G", 30], ["M", 20], ["K", 10]];
    for (var s = 0; s < steps.length; s++) {
      var factor = Math.pow(2, steps[s][1]);
      if (bytes >= factor && bytes % factor === 0) return bytes / factor + steps[s][0];
    }
    return String(bytes);
  }
  function limitOf(row) { var found = data.limits[limit[rowProbe[row]]]; return found === null ? NaN : found; }
  function shareOf(row) {
    var probe = rowProbe[row], normal = data.normal[what[probe]], v = number(row);
    var reference = normal || data.limits[limit[probe]];
    return reference && v === v ? v / reference : NaN;
  }
  // Of fewer than three hosts there is no normal, and the share is of what is required.
  var OF_NORMAL = data.normal.some(function (one) { return one; }) ? "of normal" : "of required";
  var COLUMNS = [
    ["outcome", function (row) { return outcome[rowProbe[row]]; }, function (row) { return data.outcomes[outcome[rowProbe[row]]].toUpperCase(); }],
    ["phase", function (row) { return data.what[what[rowProbe[row]]][0]; }],
    ["host", function (row) { return whoTexts[who[rowProbe[row]]]; }],
    ["kind", function (row) { return data.what[what[rowProbe[row]]][1]; }],
    ["what", function (row) { return data.what[what[rowProbe[row]]][2]; }],
    ["metric", function (row) { var m = measured(row); return m ? m[0] : ""; }],
    ["size", function (row) { var m = measured(row); return m && m[1] ? m[1] : 0; }, function (row) { var m = measured(row); return m ? size(m[1]) : ""; }],
    ["value", number, function (row) {
      var m = measured(row), v = number(row);
      return m ? v.toLocaleString("en", { maximumFractionDigits: v < 10 ? 3 : 1 }) + " " + m[2] : data.reasons[reason[rowProbe[row]]];
    }],
    ["required", limitOf, function (row) { var v = limitOf(row); return v === v ? v.toLocaleString("en") + " Gb/s" : ""; }],
    [OF_NORMAL, shareOf, function (row) {
      var v = shareOf(row), required = !data.normal[what[rowProbe[row]]];
      // What FAILs by a little is not at 100 % of what is required.
      var said = (required ? Math.floor(v * 100) : Math.round(v * 100)) + " %";
      return v === v ? said + (required && OF_NORMAL === "of normal" ? " of required" : "") : "";
    }]
  ];
  var VALUE = 7; // without a number its reason takes the columns from here on
  var NUMERIC = { size: 1, value: 1, required: 1, "of normal": 1, "of required": 1 };
  var PAGE = 100, shown = new Uint32Array(0), page = 0, sorted = -1, upward = true;

  function tokens(text) { return text.split(/[^A-Za-z0-9_-]+/); }
  // For each dictionary, which entries a word fits: then a row is three look-ups, not a string search.
  function fits(word, texts, members) {
    var exact = word.charAt(0) === "=", sought = exact ? word.slice(1) : word.toLowerCase();
    var found = new Uint8Array(texts.length);
    texts.forEach(function (text, index) {
      if (exact) found[index] = tokens(text).indexOf(sought) >= 0 ? 1 : 0;
      else found[index] = text.toLowerCase().indexOf(sought) >= 0 ? 1 : 0;
    });
    if (members) members.forEach(function (entry, index) {
      if (!found[index] && !isHost(entry)) found[index] = entry[1].some(function (host) {
        return exact ? data.hosts[host] === sought : data.hosts[host].toLowerCase().indexOf(sought) >= 0;
      }) ? 1 : 0;
    });
    return found;
  }
  function filter() {
    var words = document.getElementById("words").value.split(/\s+/).filter(Boolean).slice(0, 8);
    var wanted = document.getElementById("outcome").value;
    var whatTexts = data.what.map(function (parts) { return parts.join(" "); });
    var tests = words.map(function (word) {
      return [fits(word, whoTexts, data.who), fits(word, whatTexts), fits(word, data.outcomes), fits(word, data.reasons)];
    });
    var good = data.outcomes.indexOf("pass"), only = data.outcomes.indexOf(wanted);
    var probeFits = new Uint8Array(probes);
    for (var p = 0; p < probes; p++) {
      if (wanted === "-" ? outcome[p] === good : only >= 0 && outcome[p] !== only) continue;
      var ok = 1;
      for (var t = 0; t < tests.length && ok; t++) {
        var test = tests[t];
        ok = test[0][who[p]] | test[1][what[p]] | test[2][outcome[p]] | test[3][reason[p]];
      }
      probeFits[p] = ok;
    }
    var kept = new Uint32Array(rows), count = 0;
    for (var row = 0; row < rows; row++) if (probeFits[rowProbe[row]]) kept[count++] = row;
    shown = kept.slice(0, count);
    order();
  }
  function order() {
    if (sorted >= 0) {
      var key = COLUMNS[sorted][1], keys = new Array(rows), way = upward ? 1 : -1;
      shown.forEach(function (row) { keys[row] = key(row); });
      shown.sort(function (a, b) {
        var x = keys[a], y = keys[b];
        if (x !== x) return y !== y ? a - b : 1;   // what has no number comes last, either way
        if (y !== y) return -1;
        return x < y ? -way : x > y ? way : a - b;
      });
    } else {
      shown.sort(function (a, b) { return outcome[rowProbe[b]] - outcome[rowProbe[a]] || a - b; });
    }
    page = 0;
    draw();
  }
  function cell(name, text, cls) {
    var made = document.createElement(name);
    made.textContent = text;
    if (cls) made.className = cls;
    return made;
  }
  function draw() {
    var body = document.querySelector("#table tbody"), pages = Math.max(1, Math.ceil(shown.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    body.textContent = "";
    for (var i = page * PAGE; i < Math.min(shown.length, (page + 1) * PAGE); i++) {
      var row = shown[i], line = document.createElement("tr");
      COLUMNS.forEach(function (column, index) {
        if (index > VALUE && !measured(row)) return;
        var text = (column[2] || column[1])(row);
        var made = cell("td", index ? text : "", NUMERIC[column[0]] && measured(row) ? "n" : "");
        if (text.length > 30) made.title = text;
        if (!index && measured(row)) made.title = data.reasons[reason[rowProbe[row]]];
        if (!index) made.appendChild(cell("span", text, "badge o-" + text.toLowerCase()));
        if (index === VALUE && !measured(row)) made.colSpan = COLUMNS.length - VALUE;
        line.appendChild(made);
      });
      body.appendChild(line);
    }
    document.getElementById("found").textContent = shown.length.toLocaleString("en") + " of " + rows.toLocaleString("en") + " rows" +
      (data.left_out ? "; " + data.left_out.toLocaleString("en") + " probes are not in this page: see measurements.parquet" : "");
    document.getElementById("where").textContent = "page " + (page + 1) + " of " + pages;
  }
  function heads() {
    var line = document.createElement("tr");
    COLUMNS.forEach(function (column, index) {
      var head = cell("th", column[0], NUMERIC[column[0]] ? "n" : "");
      head.tabIndex = 0;
      head.addEventListener("click", function () {
        upward = sorted === index ? !upward : true;
        sorted = index;
        line.querySelectorAll("th").forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", upward ? "ascending" : "descending");
        order();
      });
      head.addEventListener("keydown", function (event) { if (event.key === "Enter") head.click(); });
      line.appendChild(head);
    });
    document.querySelector("#table thead").appendChild(line);
  }
  // #gpu017/mlx5_3 opens the rows of that part of that host.
  function follow() {
    var asked;
    try { asked = decodeURIComponent(location.hash.slice(1)); } catch (problem) { return; }
    if (!asked || document.getElementById(asked)) return;
    var parts = asked.split("/").filter(Boolean).slice(0, 4);
    if (data.hosts.indexOf(parts[0]) < 0) return;
    document.getElementById("words").value = parts.map(function (part) { return "=" + part; }).join(" ");
    document.getElementById("outcome").value = "";
    sorted = -1;
    filter();
    unfold(parts[0]);
    document.getElementById("measurements").scrollIntoView();
  }

  var SVG = "http://www.w3.org/2000/svg", BOUNDS = [0.5, 0.65, 0.8, 0.9, 0.95, 0.98];
  function shape2(name, attributes, text) {
    var made = document.createElementNS(SVG, name);
    Object.keys(attributes).forEach(function (key) { made.setAttribute(key, attributes[key]); });
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function colour(share) {
    if (share !== share) return "none";
    return "v" + BOUNDS.filter(function (bound) { return share >= bound; }).length;
  }
  var racksAt = document.getElementById("racks"), racks = racksAt ? JSON.parse(racksAt.textContent) : [];
  function unfold(host) {
    for (var i = 0; i < racks.length; i++) if (racks[i][1].indexOf(host) >= 0) return showRack(i);
  }
  function showRack(index) {
    var place = document.getElementById("unfolded"), hosts = racks[index][1];
    var wanted = {}, cells = {}, labels = [], seen = {};
    hosts.forEach(function (host) { wanted[host] = 1; cells[host] = {}; });
    for (var row = 0; row < rows; row++) {
      var probe = rowProbe[row], entry = data.who[who[probe]];
      if (!isHost(entry) || !wanted[data.hosts[entry]]) continue;
      var label = what[probe], share = shareOf(row), own = cells[data.hosts[entry]];
      if (!seen[label]) { seen[label] = 1; labels.push(label); }
      if (!own[label] || share < own[label][0]) own[label] = [share, probe];
    }
    labels.sort(function (a, b) { return data.what[a][1] < data.what[b][1] ? -1 : data.what[a][1] > data.what[b][1] ? 1 : a - b; });
    var width = 7, left = 110, height = 14, svg = shape2("svg", { viewBox: "0 0 " + (left + labels.length * width + 10) + " " + (40 + hosts.length * height), "class": "heat", role: "img" });
    var before = "";
    labels.forEach(function (label, i) {
      if (data.what[label][1] !== before) svg.appendChild(shape2("text", { x: left + i * width, y: 14, "class": "head" }, data.what[label][1]));
      before = data.what[label][1];
    });
    hosts.forEach(function (host, j) {
      var link = shape2("a", { href: "#" + encodeURIComponent(host) });
      link.appendChild(shape2("text", { x: left - 6, y: 33 + j * height, "text-anchor": "end" }, host));
      svg.appendChild(link);
      labels.forEach(function (label, i) {
        var found = cells[host][label];
        if (!found) return;
        var box = shape2("rect", { x: left + i * width, y: 24 + j * height, width: width - 0.6, height: height - 2, "class": colour(found[0]) });
        var said = data.outcomes[outcome[found[1]]];
        box.appendChild(shape2("title", {}, data.what[label][2] + ": " + said + (found[0] === found[0] ? ", " + Math.round(found[0] * 100) + " % of normal" : "")));
        svg.appendChild(box);
        if (said === "fail" || said === "error") {
          var x = left + i * width + 1, y = 27 + j * height, sign = shape2("g", { "class": "mark m-" + said });
          sign.appendChild(shape2("path", { d: said === "fail" ? "M" + x + " " + y + "l5 6m0 -6l-5 6" : "M" + (x + 2.5) + " " + y + "v4m0 2v.8" }));
          svg.appendChild(sign);
        }
      });
    });
    place.textContent = "";
    place.appendChild(cell("h3", "rack " + racks[index][0]));
    var figure = document.createElement("figure");
    figure.appendChild(svg);
    place.appendChild(figure);
    place.hidden = false;
  }

  document.querySelectorAll(".unfold").forEach(function (rack) {
    function open() { showRack(Number(rack.getAttribute("data-rack"))); }
    rack.addEventListener("click", open);
    rack.addEventListener("keydown", function (event) { if (event.key === "Enter") open(); });
  });
  document.querySelectorAll("button.deep").forEach(function (button) {
    button.addEventListener("click", function () { location.hash = encodeURIComponent(button.getAttribute("data-to")); follow(); });
  });
  document.getElementById("filters").hidden = false;
  document.getElementById("filters").addEventListener("submit", function (event) { event.preventDefault(); });
  var waiting = 0;
  document.getElementById("words").addEventListener("input", function () { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  document.getElementById("outcome").addEventListener("change", filter);
  document.getElementById("back").addEventListener("click", function () { page--; draw(); });
  document.getElementById("next").addEventListener("click", function () { page++; draw(); });
  window.addEventListener("hashchange", follow);
  heads();
  filter();
  follow();
  document.documentElement.setAttribute("data-ready", "yes");
})();
