// Keeps a page that the server made live: numbers and charts by the ticks of one
// stream, all else by asking the server for the page again when something changed.
// One tab of a browser reads the stream and hands it to the others, as a browser
// opens six connections to a host and streams keep theirs. A hidden tab reads
// nothing, and asks for what it missed when it is shown.
"use strict";
(() => {
	const kept = 600, body = document.body, live = document.getElementById("live");
	const held = /^(overview|rules)$/.test(body.dataset.view) ? kept : 1; // the others draw no ticks
	let ticks = [], stamp = body.dataset.stamp, source = null, release = null, asking = null, again = false;
	const channel = "BroadcastChannel" in window ? new BroadcastChannel("throttle-ticks") : null;

	// Words, as the server writes them.
	const whole = n => n.toLocaleString("en-US");
	const rate = x => !x ? "0" : x < 10 ? x.toFixed(1).replace(".0", "") : x < 1e4 ? whole(Math.round(x)) : x < 1e6 ? Number((x / 1e3).toPrecision(3)) + "k" : Number((x / 1e6).toPrecision(3)) + "M";
	const seconds = x => !x ? "–" : x < 1e-3 ? (x * 1e6).toFixed(0) + " µs" : x < 1 ? Number((x * 1e3).toPrecision(3)) + " ms" : Number(x.toPrecision(3)) + " s";
	const lasting = s => {
		s = s > 0 && s < 1 ? 1 : Math.max(0, Math.round(s));
		return s < 60 ? s + " s" : s < 3600 ? Math.round(s / 60) + " min" : s < 172800 ? Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min" : Math.floor(s / 86400) + " days";
	};
	const write = (e, text) => { if (e.textContent !== text) e.textContent = text; };

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
	const draw = svg => {
		const size = svg.getAttribute("viewBox").split(" ").slice(2).map(Number), kind = svg.dataset.chart, [a, b] = svg.querySelectorAll("path");
		const zero = Array(kept).fill(0), most = v => Math.max(0, ...v.filter(x => !isNaN(x)));
		let top;
		if (kind === "latency") {
			const high = slots(2, true, t => t.p99), low = slots(2, true, t => t.p50);
			const log = v => Math.log(Math.max(v, 1e-5) / 1e-5); // NaN stays
			top = most(high);
			a.setAttribute("d", area(high.map(log), zero, size, Math.max(log(top), 1)));
			b.setAttribute("d", area(low.map(log), zero, size, Math.max(log(top), 1)));
			top = seconds(top);
		} else {
			const of = svg.dataset.rule ? t => t.rules?.[svg.dataset.rule] : t => t, per = name => t => (of(t)?.[name] ?? 0) / Math.max(t.seconds, 1e-3);
			const step = kind === "spark" ? 10 : 2, passed = slots(step, false, per("passed")), refused = slots(step, false, per("refused"));
			const sum = passed.map((v, i) => v + refused[i]);
			top = most(sum);
			a.setAttribute("d", area(passed, zero, size, top || 1e-9));
			b.setAttribute("d", area(sum, passed, size, top || 1e-9));
			top = rate(top);
		}
		const label = document.querySelector(`[data-top="${kind}"]`);
		if (label) write(label, top);
	};

	const numbers = t => {
		const per = n => rate((n ?? 0) / Math.max(t.seconds, 1e-3)), all = t.passed + t.refused;
		const now = {
			passed: per(t.passed), refused: per(t.refused), share: (all ? Math.round(100 * t.refused / all) : 0) + " %", p50: seconds(t.p50), p99: seconds(t.p99),
			store: t.store === "closed" ? "connected" : t.store, fallback: whole(t.decided_without_store), version: t.version || "none", age: lasting(t.age),
		};
		for (const e of document.querySelectorAll("[data-n]")) write(e, now[e.dataset.n]);
		for (const e of document.querySelectorAll("[data-reason]")) write(e, per(t.reasons?.[e.dataset.reason]));
		for (const e of document.querySelectorAll("td[data-rule]")) write(e, per(t.rules?.[e.dataset.rule]?.[e.dataset.of]));
	};

	const times = () => {
		for (const e of document.querySelectorAll("time[data-until]")) write(e, "in " + lasting((new Date(e.dateTime) - Date.now()) / 1e3));
		for (const e of document.querySelectorAll("time[data-ago]")) write(e, lasting((Date.now() - new Date(e.dateTime)) / 1e3) + " ago");
	};

	// place puts parts of the page as it is now in place of those that are shown. One
	// that is being used stays, until it is used no more.
	const behind = new Map(); // the parts to come, by name
	const place = () => {
		for (const [name, html] of behind) {
			const part = document.querySelector(`[data-part="${name}"]`);
			if (part && (part.contains(document.activeElement) || part.querySelector("details[open], :active"))) continue;
			behind.delete(name);
			if (part && part.innerHTML !== html) part.innerHTML = html;
		}
	};
	// refresh asks for the page as it is now. What fails is asked for again with the
	// next tick.
	const refresh = async () => {
		if (asking) { again = true; return; }
		asking = fetch(body.dataset.path, {headers: {Accept: "text/html"}});
		try {
			const answer = await asking;
			if (answer.redirected) { location.reload(); return; } // signed out
			const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
			if (fresh.body.dataset.view !== body.dataset.view) { stamp = null; return; } // a problem
			for (const part of fresh.querySelectorAll("[data-part]")) behind.set(part.dataset.part, part.innerHTML);
			place();
			times();
		} catch { stamp = null; /* the stream says that the server is away */ } finally {
			asking = null;
			if (again) { again = false; refresh(); }
		}
	};

	// take keeps a tick in its place: the answer of the ring may come after a later one.
	const take = t => {
		let at = ticks.length;
		while (at > 0 && ticks[at - 1].id > t.id) at--;
		if (ticks[at - 1]?.id === t.id) return;
		ticks.splice(at, 0, t);
		if (ticks.length > held) ticks.splice(0, ticks.length - held);
	};
	let due = 0; // a paint, at most 20 a second
	const show = () => { due ||= setTimeout(paint, 50); };
	const paint = () => {
		const t = ticks.at(-1);
		due = 0;
		if (!t || document.hidden) return;
		place();
		numbers(t);
		times();
		for (const svg of document.querySelectorAll("svg[data-chart]:not([data-chart=replay])")) draw(svg);
		if (t.stamp !== stamp || t.id % 10 === 0 && document.querySelector("[data-part=reasons], [data-part=key], [data-part=top]")) refresh();
		stamp = t.stamp;
	};
	const state = (text, on) => { if (live) { write(live, text); live.classList.toggle("on", !!on); } };

	// catchUp asks for what the ring has after the last tick.
	const catchUp = async () => {
		try {
			const answer = await fetch("/api/v1/series?after=" + (ticks.at(-1)?.id ?? 0));
			if (!answer.ok) return;
			for (const t of (await answer.json()).ticks) take(t);
			show();
		} catch { /* the stream says that the server is away */ }
	};
	const receive = t => {
		const last = ticks.at(-1)?.id;
		if (last && t.id > last + 3) catchUp(); // a tab that read for all was closed
		take(t);
		state("live", true);
		show();
	};

	const open = () => {
		source = new EventSource("/api/v1/stream?after=" + (ticks.at(-1)?.id ?? 0));
		source.onmessage = e => {
			const t = JSON.parse(e.data);
			channel?.postMessage(t);
			receive(t);
		};
		source.onerror = () => {
			state("reconnecting");
			if (source?.readyState !== EventSource.CLOSED) return;
			close(); // another tab may have more luck
			setTimeout(resume, 3000);
			refresh(); // leads to the form that signs in where the session has ended
		};
	};
	const close = () => {
		source?.close();
		source = null;
		release?.();
		release = null;
	};
	let waiting = null; // for the lock
	const resume = async () => {
		if (document.hidden || source || waiting) return;
		if (!navigator.locks) { open(); return; } // plain HTTP beyond this machine
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
	if (channel) channel.onmessage = e => { if (!document.hidden && !source) receive(e.data); };
	document.addEventListener("visibilitychange", async () => {
		if (document.hidden) { pause(); return; }
		await catchUp();
		resume();
	});
	addEventListener("pagehide", pause);
	addEventListener("pageshow", e => { if (e.persisted) { catchUp(); resume(); } });

	times();
	catchUp().then(resume);
	document.documentElement.dataset.ready = "";
})();
