// ---- colours

const scheme = matchMedia("(prefers-color-scheme: dark)");
let styles = getComputedStyle(document.documentElement);
const color = name => () => styles.getPropertyValue("--" + name).trim();

// ---- data of charts

// instants undoes the differences, in seconds.
function instants(t) {
  let sum = 0;
  return (t || []).map(d => (sum += d) / 1000);
}

// framed puts points without value at both ends, so that all charts of a run
// show all of it.
function framed(end, t, ...lines) {
  t = [0, ...t, Math.max(end, t.at(-1) || 0)];
  return [t, ...lines.map(y => [null, ...y, null])];
}

// joined merges the dots of all verdicts into columns over one time.
function joined(dots) {
  const all = dots.flatMap((d, v) => instants(d.t_ms).map((t, i) => [t, d.y[i], v]));
  all.sort((a, b) => a[0] - b[0]);
  return [all.map(a => a[0]), ...dots.map((_, v) => all.map(a => a[2] === v ? a[1] : null))];
}

// ---- charts

const height = 230;
const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
  3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 1728000, 4320000, 8640000, 17280000, 43200000, 86400000];
const charts = new Set();
let logarithmic = false;

const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const axis = more => ({stroke: color("muted"), font, ticks: {show: false}, grid: {stroke: color("grid"), width: 1}, ...more});
const timeAxis = () => axis({incrs: steps, space: 64, size: 26, gap: 6, values: (u, at, i, space, step) => at.map(s => clock(s, step, u.scales.x.max))});
// room is how wide an axis has to be for its values: none is cut.
const ruler = document.createElement("canvas").getContext("2d");
const room = (u, values) => {
  ruler.font = font;
  return Math.max(58, ...(values || []).map(text => Math.ceil(ruler.measureText(text).width) + 12));
};
// fromZero leaves some room at both ends, so that no dot is cut.
const fromZero = (u, low, high) => high > 0 ? [-0.03 * high, 1.06 * high] : [-0.03, 1];
const wholeSteps = [1, 2, 5].flatMap(m => Array.from({length: 13}, (_, e) => m * 10 ** e)).sort((a, b) => a - b);

// plain is a whole or small number without more digits than it needs.
const plain = x => x >= 1000 ? grouped.format(x) : String(Number(x.toPrecision(6)));

// delays are the scale and the axis of seconds, linear or logarithmic; the
// latter is linear below a threshold, for most delays are zero.
function delays(data) {
  const top = data.slice(1).reduce((t, y) => y.reduce((t, x) => Math.max(t, x || 0), t), 0);
  const write = (u, at) => at.map(s => s === 0 ? "0" : s < 1 && (top < 1 || logarithmic) ? plain(s * 1000) + " ms" : plain(s) + " s");
  if (!logarithmic || top === 0) return {axis: {values: write}};
  const low = 10 ** Math.floor(Math.log10(top) - 2.5), splits = [0];
  for (let s = low; s <= 1.01 * top; s *= 10) splits.push(s);
  return {
    axis: {values: write, splits: () => splits, filter: (u, at) => at},
    scale: {distr: 4, asinh: low, range: () => [-0.15 * low, 1.3 * top]},
  };
}

// alone reports whether a series has one value, which as a line would not be seen.
const alone = (u, i) => u.data[i].filter(y => y != null).length === 1;
const line = (name, width, more) => ({stroke: color(name), width, spanGaps: true, points: {show: alone, size: 5, fill: color(name)}, ...more});
const dot = name => ({stroke: color(name), paths: () => null, points: {show: true, size: 4.5, width: 0, stroke: color(name), fill: color(name)}});

const legend = (...items) => make("ul", "legend", ...items.map(([kind, name, text]) => make("li", `${kind} is-${name}`, make("i"), text)));

const verdicts = ["served", "throttled", "failed"];
const dotName = ["served", "throttled", "failed for another reason"];

// before is the last value up to i, and nearest the closest one.
function before(y, i) {
  while (i > 0 && y[i] == null) i--;
  return y[i];
}

// overlaid are the lines of some policies over one time.
const mostOverlaid = 12;
function overlaid(runs, of) {
  const some = runs.slice(0, mostOverlaid), place = i => 1 + i % 6;
  const tables = some.map(({trace: t}) => {
    const at = [...instants(t.rates.t_ms), t.end_s], y = of(t.rates, at);
    return [at, [...y, y.at(-1) ?? null]];
  });
  const said = (u, s, i) => `${some[s].name} ${short(before(u.data[s + 1], i) ?? 0)}`;
  return {
    data: uPlot.join(tables), focus: true,
    y: {axis: {values: (u, at) => at.map(plain)}},
    series: some.map((_, i) => line("worker-" + place(i), 1.5, i < 6 ? {} : {dash: [6, 4]})),
    legend: legend(...some.map((p, i) => [i < 6 ? "line" : "line dash", "w" + place(i), p.name])),
    read(u, i) {
      const text = u.focused ? said(u, u.focused - 1, i) : some.slice(0, 4).map((_, s) => said(u, s, i)).join(", ");
      return {at: u.data[0][i], text};
    },
  };
}

const kinds = {
  dots(t) {
    const data = framed(t.end_s, ...joined(t.dots));
    const present = verdicts.map((_, v) => v).filter(v => v < 2 || t.seen[v] > 0);
    return {
      data: data.slice(0, 1 + present.length),
      series: present.map(v => dot(verdicts[v])),
      y: delays(data),
      legend: legend(...present.map(v => ["", verdicts[v], dotName[v]])),
      read(u, i) {
        let best;
        for (let k = Math.max(0, i - 30); k < Math.min(u.data[0].length, i + 31); k++) {
          for (let s = 1; s < u.data.length; s++) {
            if (u.data[s][k] == null) continue;
            const dx = u.valToPos(u.data[0][k], "x") - u.cursor.left, dy = u.valToPos(u.data[s][k], "y") - u.cursor.top;
            const far = dx * dx + dy * dy;
            if (!best || far < best.far) best = {far, at: u.data[0][k], text: `${span(u.data[s][k])}, ${dotName[s - 1]}`};
          }
        }
        return best;
      },
    };
  },
  lines(t) {
    const l = t.lines, band = l.workers.length === 0;
    const data = framed(t.end_s, instants(l.t_ms), ...l.y);
    if (band) {
      return {
        data, y: delays(data),
        series: [line("band-soft", 1), line("worker-1", 1.75), line("band-soft", 1)],
        bands: [{series: [3, 1], fill: color("band-soft")}],
        legend: legend(["line", "w1", "median"], ["soft", "band", "shortest to longest"]),
        read: (u, i) => ({at: u.data[0][i], text: `median ${span(before(u.data[2], i) || 0)}, from ${span(before(u.data[1], i) || 0)} to ${span(before(u.data[3], i) || 0)}`}),
      };
    }
    const of = w => 1 + (w[0] - 1) % 6, clients = [...new Set(l.workers.map(w => w[0]))];
    const name = w => clients.length > 1 ? `client ${w[0]}, worker ${w[1]}` : `worker ${w[1]}`;
    return {
      data, y: delays(data), focus: true,
      series: l.workers.map(w => line("worker-" + of(w), 1.25)),
      legend: clients.length > 1 && clients.length <= 6 ? legend(...clients.map(c => ["line", "w" + of([c]), `client ${c}`])) : null,
      read(u, i) {
        if (u.focused) return {at: u.data[0][i], text: `${name(l.workers[u.focused - 1])}: ${span(before(u.data[u.focused], i) || 0)}`};
        const now = u.data.slice(1).map(y => before(y, i)).filter(y => y != null);
        if (!now.length) return null;
        return {at: u.data[0][i], text: now.length === 1 ? span(now[0]) : `${now.length} workers: ${span(Math.min(...now))} to ${span(Math.max(...now))}`};
      },
    };
  },
  rates(t) {
    const r = t.rates, stepped = uPlot.paths.stepped({align: 1});
    const at = instants(r.t_ms), last = y => y.at(-1) ?? null;
    const present = verdicts.filter((v, i) => i < 2 || t.seen[i] > 0);
    const columns = present.map(v => r[v] || []);
    const limited = r.capacity && r.capacity.length > 0;
    if (limited) columns.push(r.capacity);
    const data = [[...at, t.end_s], ...columns.map(y => [...y, last(y)])];
    const series = present.map(v => line(v, 1.75, {paths: stepped}));
    const items = present.map(v => ["line", v, v]);
    if (limited) {
      series.push(line("capacity", 1.5, {paths: stepped, dash: [6, 4]}));
      items.push(["line dash", "capacity", "capacity"]);
    }
    return {
      data, series, y: {axis: {values: (u, at) => at.map(plain)}}, legend: legend(...items),
      read: (u, i) => ({at: u.data[0][i], text: items.map((item, k) => `${item[2]} ${short(u.data[k + 1][i] ?? 0)}`).join(", ")}),
    };
  },
  served: runs => overlaid(runs, r => r.served || []),
  refused: runs => overlaid(runs, (r, at) => {
    let sum = 0;
    return (r.throttled || []).map((x, i) => sum += x * (at[i + 1] - at[i]));
  }),
  level(t) {
    const data = framed(t.end_s, instants(t.level.t_ms), t.level.y);
    return {
      data, y: {axis: {values: (u, at) => at.map(plain), incrs: wholeSteps}},
      series: [line("level", 1.5, {fill: color("level-soft")})],
      legend: null,
      read: (u, i) => ({at: u.data[0][i], text: `${plain(Math.round(before(u.data[1], i) || 0))} left`}),
    };
  },
  inFlight(t) {
    const f = t.flight, limited = f.limit && f.limit.length > 0;
    const data = framed(t.end_s, instants(f.t_ms), f.in_flight, ...(limited ? [f.limit] : []));
    const series = [line("worker-1", 1.75)], items = [["line", "w1", "in flight"]];
    if (limited) {
      series.push(line("capacity", 1.5, {dash: [6, 4]}));
      items.push(["line dash", "capacity", "limit"]);
    }
    return {
      data, series, y: {axis: {values: (u, at) => at.map(plain)}}, legend: limited ? legend(...items) : null,
      read: (u, i) => ({at: u.data[0][i], text: items.map((item, k) => `${item[2]} ${short(before(u.data[k + 1], i) ?? 0)}`).join(", ")}),
    };
  },
  took(t) {
    const data = framed(t.end_s, instants(t.flight.t_ms), t.flight.took);
    return {
      data, series: [line("worker-2", 1.75)], y: delays(data), legend: null,
      read: (u, i) => ({at: u.data[0][i], text: span(before(u.data[1], i) || 0)}),
    };
  },
};

function hover(u) {
  const i = u.cursor.idx, out = u.out;
  const said = i == null || u.cursor.left < 0 ? null : u.kind.read(u, i);
  out.textContent = "";
  if (!said) return;
  const step = (u.scales.x.max - u.scales.x.min) / 300;
  out.append(make("b", "", clock(said.at, step >= 60 ? 1 : step, said.at)), " · ", said.text);
}

// keys lets a chart be read and zoomed by keyboard.
function keys(u, event) {
  const t = u.data[0], x = u.scales.x, at = u.cursor.idx ?? u.valToIdx((x.min + x.max) / 2);
  const go = i => {
    const left = u.valToPos(t[i], "x"), near = u.data.slice(1).map(y => y[i]).find(y => y != null);
    u.setCursor({left, top: near == null ? u.over.clientHeight / 2 : u.valToPos(near, "y")}, true, true);
  };
  const zoom = by => {
    const end = t.at(-1), half = (x.max - x.min) * by / 2, mid = t[at];
    if (2 * half < end / 1000) return;
    const min = Math.max(0, Math.min(mid - half, end - 2 * half));
    for (const c of u.group) c.setScale("x", {min, max: Math.min(end, min + 2 * half)});
  };
  const jump = Math.max(1, Math.round(t.length / 200));
  switch (event.key) {
    case "ArrowRight": go(Math.min(t.length - 1, at + jump)); break;
    case "ArrowLeft": go(Math.max(0, at - jump)); break;
    case "ArrowUp":
    case "ArrowDown":
      if (!u.kind.focus) return;
      u.focused = ((u.focused || 0) + (event.key === "ArrowUp" ? 1 : u.series.length - 1)) % u.series.length;
      u.setSeries(u.focused || null, {focus: u.focused > 0});
      go(at);
      break;
    case "+": case "=": zoom(0.5); break;
    case "-": zoom(2); break;
    case "Escape":
      for (const c of u.group) c.setScale("x", {min: 0, max: c.data[0].at(-1)});
      u.setCursor({left: -10, top: -10});
      break;
    default: return;
  }
  event.preventDefault();
}

const watcher = new ResizeObserver(entries => {
  for (const e of entries) {
    const u = e.target.chart, width = Math.floor(e.contentRect.width);
    if (u && width > 0 && width !== u.width) u.setSize({width, height});
  }
});

// frame prepares a figure for its chart.
function frame(fig) {
  const plot = make("div", "plot"), out = make("p", "readout");
  out.setAttribute("aria-live", "polite");
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-roledescription", "chart");
  plot.setAttribute("aria-label", fig.querySelector("h4").textContent + ", " + fig.closest("section").querySelector("h3").textContent);
  plot.addEventListener("keydown", e => keys(plot.chart, e));
  fig.append(make("div", "bar", out), plot);
  return {plot, out};
}

function drawChart(fig, trace, group) {
  const kind = kinds[fig.dataset.chart](trace), {plot, out} = fig.parts ||= frame(fig);
  if (kind.legend && !fig.querySelector(".legend")) out.before(kind.legend);
  if (plot.chart) {
    charts.delete(plot.chart);
    plot.chart.destroy();
  }
  const u = new uPlot({
    width: Math.max(120, Math.floor(plot.clientWidth)), height,
    padding: [8, 22, 0, 0],
    legend: {show: false},
    cursor: {y: false, points: {size: 8, width: 0}, sync: {key: group.key}, focus: {prox: kind.focus ? 16 : -1}},
    focus: {alpha: 0.2},
    scales: {x: {time: false}, y: {range: fromZero, ...kind.y.scale}},
    axes: [timeAxis(), axis({size: room, gap: 6, space: 34, ...kind.y.axis})],
    series: [{}, ...kind.series],
    bands: kind.bands || [],
    hooks: {
      setCursor: [hover],
      setSeries: [(u, i, opts) => { if (opts.focus != null) u.focused = i || 0; }],
    },
  }, kind.data, (u, start) => {
    u.kind = kind, u.out = out, u.group = group.charts;
    plot.append(u.root);
    start();
  });
  group.charts.push(u);
  charts.add(u);
  plot.chart = u;
  watcher.observe(plot);
}

function drawPolicy(policy) {
  const trace = JSON.parse(policy.querySelector(".trace").textContent);
  const group = {key: policy.id, charts: []};
  for (const fig of policy.querySelectorAll("figure")) drawChart(fig, trace, group);
}

function drawTogether(section) {
  const policies = [...section.closest(".scenario").querySelectorAll(".policy")];
  const runs = policies.slice(0, mostOverlaid).map(p => ({
    name: p.querySelector("h3").textContent, trace: JSON.parse(p.querySelector(".trace").textContent),
  }));
  const group = {key: section.id, charts: []};
  for (const fig of section.querySelectorAll("figure")) drawChart(fig, runs, group);
}

scheme.addEventListener("change", () => {
  styles = getComputedStyle(document.documentElement);
  for (const u of charts) u.redraw(false, true);
});

document.querySelectorAll(".scenario").forEach(drawTable);

// drawAll draws one policy at a time, so that the page can be used at once.
let waiting = [];
function next() {
  const policy = waiting.shift();
  if (!policy) {
    document.documentElement.dataset.drawn = charts.size;
    return;
  }
  if (policy.classList.contains("together")) drawTogether(policy);
  else drawPolicy(policy);
  setTimeout(next, 0);
}
function drawAll() {
  const idle = waiting.length === 0;
  delete document.documentElement.dataset.drawn;
  waiting = [...document.querySelectorAll(".together, .policy")];
  if (idle) next();
}

const boxes = document.querySelectorAll(".log");
for (const box of boxes) {
  box.checked = false;
  box.addEventListener("change", () => {
    logarithmic = box.checked;
    for (const other of boxes) other.checked = logarithmic;
    drawAll();
  });
}
document.querySelectorAll(".policy").forEach(drawGroups);
drawAll();
