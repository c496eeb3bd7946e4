// Keeps the page live by one stream, which a hidden tab does not read.
"use strict";
(() => {
	const live = document.getElementById("live"), main = document.getElementById("main");
	let source = null, again = 0;
	const say = (text, on) => {
		if (live.textContent !== text) live.textContent = text;
		live.classList.toggle("on", !!on);
	};
	// morph makes a as b is, and leaves alone what is the same: the focus, a selection.
	const morph = (a, b) => {
		if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) { a.replaceWith(b); return; }
		if (a.nodeType !== Node.ELEMENT_NODE) {
			if (a.data !== b.data) a.data = b.data;
			return;
		}
		for (const {name} of [...a.attributes]) if (!b.hasAttribute(name)) a.removeAttribute(name);
		for (const {name, value} of b.attributes) if (a.getAttribute(name) !== value) a.setAttribute(name, value);
		const old = [...a.childNodes], now = [...b.childNodes];
		now.forEach((n, i) => i < old.length ? morph(old[i], n) : a.append(n));
		old.slice(now.length).forEach(n => n.remove());
	};
	const show = html => {
		const to = new DOMParser().parseFromString("<main>" + html + "</main>", "text/html").querySelector("main");
		to.id = "main";
		morph(main, to);
	};
	const close = () => {
		clearTimeout(again);
		source?.close();
		source = null;
	};
	const open = () => {
		close();
		if (document.hidden) return;
		source = new EventSource("events");
		source.onmessage = e => { show(JSON.parse(e.data)); say("live", true); clearTimeout(again); };
		source.onerror = () => {
			clearTimeout(again);
			// A stream ends each half minute, and the browser opens it again at once.
			if (source.readyState !== EventSource.CLOSED) { again = setTimeout(() => say("reconnecting"), 3000); return; }
			say("not live: reload to see more");
			again = setTimeout(open, 10000);
		};
	};
	document.addEventListener("visibilitychange", () => {
		if (!document.hidden) { open(); return; }
		close();
		say("paused");
	});
	addEventListener("pagehide", close);
	addEventListener("pageshow", e => { if (e.persisted) open(); });
	open();
})();
