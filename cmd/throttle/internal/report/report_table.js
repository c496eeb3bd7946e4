// ---- helpers

const read = id => JSON.parse(document.getElementById(id).textContent);

// make is an element with a class, properties and children.
function make(tag, className, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

const grouped = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

// short writes x with three digits that count, as the tables of text do.
function short(x) {
  const size = Math.abs(x);
  if (size === 0 || size >= 99.95) return grouped.format(x);
  return x.toFixed(size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

// span writes seconds as people do.
function span(s) {
  if (s === 0) return "0 s";
  if (s < 0.001) return short(s * 1e6) + " µs";
  if (s < 1) return short(s * 1e3) + " ms";
  return short(s) + " s";
}

// clock writes an instant, fine enough for steps of that many seconds, in the form of the
// last instant beside it.
function clock(s, step, last) {
  if (step >= 86400) return s / 86400 + " d";
  if (step >= 3600) return s / 3600 + " h";
  if (step >= 60) return Math.round(s / 60) + " min";
  if (last >= 120) {
    const rest = s % 60;
    return Math.floor(s / 60) + ":" + (step >= 1 ? String(Math.round(rest)).padStart(2, "0") : rest.toFixed(1).padStart(4, "0"));
  }
  return (step >= 1 ? Math.round(s) : Number(s.toFixed(step >= 0.1 ? 1 : 3))) + " s";
}

// ---- the table

const results = read("results").results;
const measures = read("measures");

const shown = (x, m) => m.whole ? grouped.format(x) : short(x * m.scale);

// figure is the exact number for machines and a short one for eyes.
function figure(x, m) {
  const d = make("data", "", shown(x, m));
  d.value = String(x);
  return d;
}

// bestOf is what the best median of a column looks like, unless all do.
function bestOf(rows, m) {
  const all = rows.map(r => r[m.name]).filter(x => x).map(x => x.median);
  if (!m.better || rows.length < 2 || all.length === 0) return undefined;
  const best = shown(m.better < 0 ? Math.min(...all) : Math.max(...all), m);
  return all.length === rows.length && all.every(x => shown(x, m) === best) ? undefined : best;
}

function cellOf(row, m, best) {
  const stat = row[m.name], td = make("td");
  td.dataset.measure = m.name;
  if (!stat) {
    td.className = "none";
    td.append(make("span", "", "–"), make("span", "hidden", "does not apply"));
    return td;
  }
  const median = make("span", "", figure(stat.median, m));
  td.append(median);
  if (shown(stat.median, m) === best) {
    td.className = "best";
    median.append(make("span", "hidden", " best"));
  }
  if (shown(stat.min, m) !== shown(stat.max, m)) {
    td.append(make("small", "", figure(stat.min, m), " – ", figure(stat.max, m)));
  }
  return td;
}

function rowOf(row, section, columns, best) {
  const tr = make("tr");
  tr.dataset.policy = row.policy;
  const name = make("th"), target = section.querySelector(`[data-row="${row.index}"]`);
  name.scope = "row";
  const words = row.policy.split(/(?<=[(,])/).flatMap((part, i) => i ? [make("wbr"), part] : [part]);
  if (target) {
    const a = make("a", "", ...words);
    a.href = "#" + target.id;
    name.append(a);
  } else name.append(...words);
  tr.append(name, ...columns.map((m, i) => cellOf(row, m, best[i])));
  return tr;
}

// sorter orders the rows by a column: first the way in which the best come
// first, then the other way.
function sorter(table, th, m, rows, trs) {
  return () => {
    const ascending = th.ariaSort ? th.ariaSort === "descending" : m.better < 0;
    for (const other of th.parentNode.children) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const value = r => r[m.name] ? r[m.name].median * (ascending ? 1 : -1) : Infinity;
    const order = rows.map((_, i) => i).sort((a, b) => value(rows[a]) - value(rows[b]) || a - b);
    table.tBodies[0].append(...order.map(i => trs[i]));
  };
}

function drawTable(section) {
  const first = Number(section.dataset.first);
  const rows = results.slice(first, first + Number(section.dataset.rows));
  rows.forEach((r, i) => r.index = first + i);
  const columns = measures.filter(m => rows.some(r => r[m.name]));
  const best = columns.map(m => bestOf(rows, m));
  const table = make("table", "", make("caption", "", section.querySelector("h2").textContent));
  const head = make("tr", "", make("th", "", "Policy")), body = make("tbody");
  head.firstChild.scope = "col";
  const trs = rows.map(r => rowOf(r, section, columns, best));
  for (const m of columns) {
    const button = make("button", "", make("span", "", m.label), make("small", "", m.unit));
    button.type = "button";
    button.title = m.about;
    const th = make("th", "", button);
    th.scope = "col";
    button.addEventListener("click", sorter(table, th, m, rows, trs));
    head.append(th);
  }
  body.append(...trs);
  table.append(make("thead", "", head), body);
  section.querySelector(".results").append(table);
}

// drawGroups tells the parts that groups of clients had, where there are some.
function drawGroups(policy) {
  const row = results[policy.dataset.row];
  if (!row.groups || row.groups.length < 2) return;
  const items = row.groups.map((g, i) => {
    const share = g.share ? (100 * g.share.median).toFixed(1) + " %" : "nothing";
    return make("li", "", `Group ${i + 1} (${g.policy}): `, make("b", "", share), " of all served");
  });
  policy.querySelector(".groups").append(make("ul", "", ...items));
}
