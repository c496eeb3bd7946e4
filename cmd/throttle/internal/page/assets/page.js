// Keeps a page that the server made live: numbers and charts by the ticks of one
// stream, all else by asking the server for the page again when something changed.
// One tab of a browser reads the stream and hands it to the others, as a browser
// opens six connections to a host and streams keep theirs. A hidden tab reads
// nothing, and asks for what it missed when it is shown.
"use strict";
(() => {
	const kept = 600, body = document.body, live = document.getElementById("live");
	const ofRules = body.dataset.view === "rules"; // the others show nothing of single rules
	const held = ofRules || body.dataset.view === "overview" ? kept : 1; // the others draw no ticks
	let ticks = [], stamp = body.dataset.stamp, source = null, release = null, asking = null, again = false;
	const channel = name => "BroadcastChannel" in window ? new BroadcastChannel(name) : null;

	// Words, as the server writes them.
	const whole = n => n.toLocaleString("en-US");
	const rate = x => !x ? "0" : x < 10 ? x.toFixed(1).replace(".0", "") : x < 1e4 ? whole(Math.round(x)) : x < 1e6 ? Number((x / 1e3).toPrecision(3)) + "k" : Number((x / 1e6).toPrecision(3)) + "M";
	const seconds = x => !x ? "–" : x < 1e-3 ? (x * 1e6).toFixed(0) + " µs" : x < 1 ? Number((x * 1e3).toPrecision(3)) + " ms" : Number(x.toPrecision(3)) + " s";
	const lasting = s => {
		s = s > 0 && s < 1 ? 1 : Math.max(0, Math.round(s));
		return s < 60 ? s + " s" : s < 3600 ? Math.round(s / 60) + " min" : s < 172800 ? Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min" : Math.floor(s / 86400) + " days";
	};
	const write = (e, text) => { // into the text that is there, as each new one is garbage
		const t = e.firstChild ?? e.appendChild(new Text());
		if (t.data !== text) t.data = text;
	};

	// Charts, as chart.go draws them.
	const slots = (step, largest, value) => {
		const n = kept / step, end = Math.floor(ticks.at(-1).id / step) + 1, sum = Array(n).fill(0), count = Array(n).fill(0);
		for (const t of ticks) {
			const at = n - (end - Math.floor(t.id / step)), v = value(t);
			if (at < 0 || at >= n || v == null) continue;
			if (largest) { sum[at] = Math.max(sum[at], v); count[at] = 1; } else { sum[at] += v; count[at]++; }
		}
		return sum.map((s, i) => s / count[i]);
	};
	// Of single rules the sums of ten seconds are kept, by their number, and the latest tick.
	const tens = new Map();
	let rules = {};
	const add = t => {
		const at = Math.floor(t.id / 10), from = Math.floor(ticks.at(-1).id / 10) - kept / 10;
		if (!tens.has(at)) {
			tens.set(at, {n: 0, of: new Map()});
			for (const old of tens.keys()) if (old < from) tens.delete(old);
		}
		const ten = tens.get(at);
		if (!ten) return; // too old
		ten.n++;
		for (const [name, now] of Object.entries(t.rules ?? {})) {
			const sum = ten.of.get(name) ?? {passed: 0, refused: 0};
			for (const k in sum) sum[k] += now[k] / Math.max(t.seconds, 1e-3);
			ten.of.set(name, sum);
		}
		if (t === ticks.at(-1)) rules = t.rules ?? {};
	};
	const spark = (rule, name) => {
		const end = Math.floor(ticks.at(-1).id / 10) + 1;
		return Array.from({length: kept / 10}, (_, i) => {
			const ten = tens.get(end - kept / 10 + i);
			return ten ? (ten.of.get(rule)?.[name] ?? 0) / ten.n : NaN;
		});
	};
	const area = (values, base, [w, h], top) => {
		const x = i => (i * w / (values.length - 1)).toFixed(1), y = v => (h - 1 - v / top * (h - 2)).toFixed(1);
		let d = "";
		for (let from = 0; from < values.length; from++) {
			let to = from;
			while (to < values.length && !isNaN(values[to])) to++;
			if (to === from) continue;
			for (let i = from; i < to; i++) d += (i > from ? "L" : "M") + x(i) + " " + y(values[i]);
			for (let i = to - 1; i >= from; i--) d += "L" + x(i) + " " + y(base[i]);
			d += "Z";
			from = to;
		}
		return d;
	};
	const path = (e, d) => { if (e.getAttribute("d") !== d) e.setAttribute("d", d); };
	const draw = svg => {
		const size = svg.getAttribute("viewBox").split(" ").slice(2).map(Number), kind = svg.dataset.chart, [a, b] = svg.querySelectorAll("path");
		const zero = Array(kept).fill(0), most = v => Math.max(0, ...v.filter(x => !isNaN(x)));
		let top;
		if (kind === "latency") {
			const high = slots(2, true, t => t.p99), low = slots(2, true, t => t.p50);
			const log = v => Math.log(Math.max(v, 1e-5) / 1e-5); // NaN stays
			top = most(high);
			path(a, area(high.map(log), zero, size, Math.max(log(top), 1)));
			path(b, area(low.map(log), zero, size, Math.max(log(top), 1)));
			top = seconds(top);
		} else {
			const per = name => kind === "spark" ? spark(svg.dataset.rule, name) : slots(2, false, t => t[name] / Math.max(t.seconds, 1e-3));
			const passed = per("passed"), refused = per("refused");
			const sum = passed.map((v, i) => v + refused[i]);
			top = most(sum);
			path(a, area(passed, zero, size, top || 1e-9));
			path(b, area(sum, passed, size, top || 1e-9));
			top = rate(top);
		}
		const label = document.querySelector(`[data-top="${kind}"]`);
		if (label) write(label, top);
	};

	// inView says whether a chart is in the window, or nearly; others are drawn when it is
	// scrolled to them.
	const inView = e => {
		const r = e.getBoundingClientRect();
		return r.bottom > -innerHeight / 2 && r.top < 1.5 * innerHeight;
	};
	addEventListener("scroll", () => show(), {passive: true});

	const numbers = t => {
		const per = n => rate((n ?? 0) / Math.max(t.seconds, 1e-3)), all = t.passed + t.refused;
		const now = {
			passed: per(t.passed), refused: per(t.refused), share: (all ? Math.round(100 * t.refused / all) : 0) + " %", p50: seconds(t.p50), p99: seconds(t.p99),
			store: t.store === "closed" ? "connected" : t.store, fallback: whole(t.decided_without_store), version: t.version || "none", age: lasting(t.age),
		};
		for (const e of document.querySelectorAll("[data-n]")) write(e, now[e.dataset.n]);
		for (const e of document.querySelectorAll("[data-reason]")) write(e, per(t.reasons?.[e.dataset.reason]));
		for (const e of document.querySelectorAll("[data-rule][data-of]")) write(e, per(rules[e.dataset.rule]?.[e.dataset.of]));
	};

	let ahead = null; // how much the clock of this machine is ahead of the server's, by the tick that took least
	const times = () => {
		const now = Date.now() - ahead;
		for (const e of document.querySelectorAll("time[data-until]")) write(e, "in " + lasting((new Date(e.dateTime) - now) / 1e3));
		for (const e of document.querySelectorAll("time[data-ago]")) write(e, lasting((now - new Date(e.dateTime)) / 1e3) + " ago");
	};

	// place puts parts of the page as it is now in place of those that are shown. One
	// that is being used stays, until it is used no more.
	const behind = new Map(), came = new WeakMap(); // the texts of parts to come, by name; of elements, as they came
	const place = () => {
		for (const [name, text] of behind) {
			const part = document.querySelector(`[data-part="${name}"]`), fresh = document.createElement("template");
			if (part && (part.contains(document.activeElement) || part.querySelector("details[open], :active"))) continue;
			behind.delete(name);
			if (!part) continue;
			const rows = {texts: [], shown: new Map([...part.querySelectorAll("tbody > tr")].map(e => [came.get(e), e]))};
			fresh.innerHTML = brief(text, rows); // for which no document is made
			merge(part, fresh.content.firstElementChild, rows);
		}
	};
	// brief is the text of a part whose rows have numbers, and nothing in them where they
	// are shown already: no elements are made of those. All text of others is escaped, so
	// that tags are those of the templates.
	const brief = (text, rows) => {
		const known = new Set(rows.shown.keys());
		return text.replace(/(?<!<thead>)<tr\b[^]*?<\/tr>/g, row => {
			const of = ` data-row="${rows.texts.push(row) - 1}"`;
			return known.delete(row) ? `<tr${of}></tr>` : "<tr" + of + row.slice(3);
		});
	};
	// merge makes the elements of shown those of fresh. It leaves rows and others that came
	// alike, and charts as they are drawn: each new element is garbage later.
	const lists = "section, .scroll, table, tbody, .plain";
	const remember = e => { // how it came, or what is in it
		if (e.matches(lists)) [...e.children].forEach(remember); else came.set(e, e.outerHTML);
	};
	const merge = (shown, fresh, rows) => {
		const known = new Map([...shown.children].map(e => [came.get(e), e]));
		let at = shown.firstElementChild;
		for (let e of [...fresh.children]) {
			if (at?.matches(lists) && e.matches(lists) && at.tagName === e.tagName) {
				merge(at, e, rows);
				at = at.nextElementSibling;
				continue;
			}
			const row = rows.texts[e.dataset.row], html = row ?? e.outerHTML, from = row ? rows.shown : known, old = from.get(html);
			if (old) { from.delete(html); e = old; } else {
				e.removeAttribute("data-row");
				remember(e);
				if (row) came.set(e, row);
				for (const svg of e.querySelectorAll("svg[data-rule]")) svg.replaceWith(shown.querySelector(`svg[data-rule="${CSS.escape(svg.dataset.rule)}"]`) ?? svg);
			}
			if (e === at) at = at.nextElementSibling; else shown.insertBefore(e, at);
		}
		while (at) {
			const gone = at;
			at = at.nextElementSibling;
			gone.remove();
		}
	};
	// refresh asks for the page as it is now, without what ticks draw. What fails is asked
	// for again with the next tick, and nothing twice a second. Elements are only made of
	// parts that changed.
	const texts = new Map(); // of parts, as they came last
	const refresh = async () => {
		if (asking) { again = true; return; }
		asking = fetch(body.dataset.path, {headers: {Accept: "text/html", "Throttle-Page": "parts"}});
		try {
			const answer = await asking;
			if (answer.redirected) { location.reload(); return; } // signed out
			const [start, ...parts] = (await answer.text()).split(/(?=<\w+ data-part=")/); // each up to the next
			if (!start.includes(` data-of="${body.dataset.view}"`)) { stamp = null; return; } // a problem
			for (const text of parts) {
				const name = text.split('"', 2)[1];
				if (texts.get(name) !== text) behind.set(name, text);
				texts.set(name, text);
			}
			place();
			if (ticks.length) numbers(ticks.at(-1));
			times();
		} catch { stamp = null; /* the stream says that the server is away */ } finally {
			setTimeout(() => {
				asking = null;
				if (again) { again = false; refresh(); }
			}, 1000);
		}
	};

	// take keeps a tick in its place: the answer of the ring may come after a later one.
	const take = t => {
		let at = ticks.length;
		while (at > 0 && ticks[at - 1].id > t.id) at--;
		if (ticks[at - 1]?.id === t.id) return;
		ticks.splice(at, 0, t);
		if (ofRules) add(t);
		delete t.rules;
		if (ticks.length > held) ticks.splice(0, ticks.length - held);
	};
	// A tick is shown soon, and of many the latest, twice a second: what a paint leaves
	// behind is collected late.
	let due = 0, painted = 0, tenth = 0;
	const show = () => { due ||= setTimeout(paint, Math.max(50, painted + 500 - performance.now())); };
	const paint = () => {
		const t = ticks.at(-1);
		due = 0;
		if (!t || document.hidden) return;
		painted = performance.now();
		place();
		numbers(t);
		times();
		[...document.querySelectorAll("svg[data-chart]:not([data-chart=replay])")].filter(inView).forEach(draw);
		const old = Math.floor(t.id / 10) !== tenth && document.querySelector("[data-part=reasons], [data-part=key], [data-part=top], [data-part=quotas]");
		if (t.stamp !== stamp || old) refresh();
		tenth = Math.floor(t.id / 10);
		stamp = t.stamp;
	};
	const state = (text, on) => { if (live) { write(live, text); live.classList.toggle("on", !!on); } };

	// last is the tick after which more are wanted: where none are drawn, that of the server.
	const last = () => ticks.at(-1)?.id ?? (held > 1 ? 0 : body.dataset.last);
	// catchUp asks for what the ring has after the last tick.
	const catchUp = async () => {
		try {
			const answer = await fetch("/api/v1/series?after=" + last());
			if (!answer.ok) return;
			for (const t of (await answer.json()).ticks) take(t);
			show();
		} catch { /* the stream says that the server is away */ }
	};
	const receive = t => {
		const id = ticks.at(-1)?.id;
		if (id && t.id > id + 3) catchUp(); // a tab that read for all was closed
		ahead = Math.min(ahead ?? Infinity, Date.now() - new Date(t.at));
		take(t);
		state("live", true);
		show();
	};

	// Tabs hear the ticks that another one reads: those that show rules all of them, the
	// others what is left without the rules, a tenth. One that reads hears nothing.
	const all = "throttle-ticks", few = "throttle-totals";
	let heard = null, told = [];
	const hear = () => {
		heard?.close();
		heard = channel(ofRules ? all : few);
		if (heard) heard.onmessage = e => { if (!document.hidden) receive(JSON.parse(e.data)); };
	};

	const open = () => {
		heard?.close();
		told = [channel(all), channel(few)];
		source = new EventSource("/api/v1/stream?after=" + last());
		source.onmessage = e => {
			const t = JSON.parse(e.data);
			told[0]?.postMessage(e.data);
			told[1]?.postMessage(JSON.stringify({...t, rules: undefined}));
			receive(t);
		};
		source.onerror = () => {
			state("reconnecting");
			if (source?.readyState !== EventSource.CLOSED) return;
			close(); // another tab may have more luck
			setTimeout(resume, 3000);
			catchUp(); // so that it goes on where all streams are taken
			refresh(); // leads to the form that signs in where the session has ended
		};
	};
	const close = () => {
		source?.close();
		if (source) hear();
		for (const one of told) one?.close();
		source = null;
		told = [];
		release?.();
		release = null;
	};
	// Where there are no locks (plain HTTP beyond this machine), a tab reads where none says
	// that it does; of two that say so, the one of the higher number ends.
	const claims = navigator.locks ? null : channel("throttle-reader"), number = Math.random(), free = 2500;
	let said = -free; // when another one did, last
	const claim = () => {
		claims?.postMessage(null); // asks
		setTimeout(() => { if (!source && !document.hidden && performance.now() - said > free) open(); }, claims ? 300 : 0);
	};
	if (claims) {
		claims.onmessage = e => {
			if (e.data === null) { if (source) claims.postMessage(number); return; }
			said = performance.now();
			if (source && e.data < number) close();
		};
		setInterval(() => { if (source) claims.postMessage(number); else resume(); }, 1000);
	}
	let waiting = null; // for the lock
	const resume = async () => {
		if (document.hidden || source || waiting) return;
		if (!navigator.locks) { claim(); return; }
		const stop = waiting = new AbortController();
		try {
			await navigator.locks.request("throttle-stream", {signal: stop.signal}, () => {
				waiting = null;
				return new Promise(done => { release = done; open(); });
			});
		} catch { /* it was hidden while it waited */ } finally { if (waiting === stop) waiting = null; }
	};
	const pause = () => {
		waiting?.abort();
		waiting = null;
		close();
		state("paused");
	};
	document.addEventListener("visibilitychange", async () => {
		if (document.hidden) { pause(); return; }
		await catchUp();
		resume();
	});
	addEventListener("pagehide", pause);
	addEventListener("pageshow", e => { if (e.persisted) { catchUp(); resume(); } });

	for (const part of document.querySelectorAll("[data-part]")) [...part.children].forEach(remember);
	times();
	hear();
	catchUp().then(resume);
	document.documentElement.dataset.ready = "";
})();
