package browsertest

import (
	"net/url"
	"testing"
)

// moving is a page whose button moves once it has been measured twice, and again while
// it is first pressed; another takes its place.
const moving = `<!doctype html><body style="margin: 100px"><div id=place></div>
<button id=want>want</button><br><button id=other>other</button><script>
	const want = document.getElementById("want"), other = document.getElementById("other");
	const place = document.getElementById("place");
	var clicks = {want: 0, other: 0}, measured = 0, pressed = 0;
	for (const e of [want, other]) e.onclick = () => { clicks[e.id]++; };
	want.onmousedown = () => { if (++pressed === 1) place.style.height = "200px"; };
	const real = want.getBoundingClientRect.bind(want);
	want.getBoundingClientRect = () => {
		const r = real();
		if (++measured === 2) { place.append(other); other.style.display = "block"; }
		return r;
	};
</script>`

// TestClickHits: a button that moves before the mouse is there, and between press and
// release, is clicked once, and the other in its place never.
func TestClickHits(t *testing.T) {
	b := Open(t)
	b.Go("data:text/html," + url.PathEscape(moving))
	Hand{Browser: b}.Click("#want")
	if got := Ask[string](b, `clicks.want + " " + clicks.other + " " + pressed`); got != "1 0 2" {
		t.Errorf("clicks of the button, of the other, and presses: %s, want 1 0 2", got)
	}
}
