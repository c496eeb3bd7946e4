package signal

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// values are what fields hold, honestly and otherwise.
var values = []string{
	"", "0", "1", "-1", "7", "2.0", "41", "600000", "5e9", "1793955007", "1793955007000", "99999999999999999999", "0x10", "NaN", "inf", ".", "-", "1.5.5",
	"true", "false", "soon", "20ms", "6m0s", "1d2h", "9223372036854775807s", "Fri, 06 Nov 2026 08:50:07 GMT", "Friday, 06-Nov-26 08:50:07 GMT",
	"Fri Nov  6 08:50:07 2026", "2026-11-06T08:50Z", "2026-11-06T08:50:07.25Z", "Fri Nov 06 2026 08:50:07 GMT+0000 (UTC)", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
	`"default";r=0;t=30`, `"a";r=1;t=5, "b";r=0;t=99999999;pk=:YQ==:`, "limit=100, remaining=0, reset=50", `"a";q=100;w=60;qu="content-bytes"`, "12, 12;w=1", `"open;r=1`,
	"32/40", "api-usage=10018/100000", "total=100; remaining=0; resets=41", "Microsoft.Compute/A3Min;0,B30Min;1297", `{"call_count":100}`,
	`{"1":[{"call_count":101,"estimated_time_to_regain_access":99999999999}]}`, "global-concurrency", "8", "shared", "CAgaOQoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxINCgsI+///////////AQ==",
}

// TestSoakRead reads whatever answers can be put together of all that fields
// hold and all that bodies do, torn and mixed: 20,000 of them, or, with
// THROTTLE_SOAK=1, ten million.
func TestSoakRead(t *testing.T) {
	times := 20_000
	if os.Getenv("THROTTLE_SOAK") != "" {
		times = 10_000_000
	}
	var bodies [][]byte
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		if f := readFixture(t, file); len(f.body) > 1 {
			bodies = append(bodies, f.body)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	statuses := []int{0, 200, 202, 301, 400, 403, 408, 409, 429, 500, 503, 529, 1 << 40}
	var names [][]string
	for _, d := range dialects {
		names = append(names, append(places(d), "Date", "Age"))
	}
	fields := map[string]string{}
	field := func(name string) string { return fields[name] }
	var before, after runtime.MemStats
	for i := range times {
		which := rng.IntN(len(dialects))
		clear(fields)
		for _, name := range names[which] {
			if rng.IntN(2) == 0 {
				fields[name] = values[rng.IntN(len(values))]
			}
		}
		status := statuses[rng.IntN(len(statuses))]
		body := torn(rng, bodies)
		measured := i%1000 == 0 // reading the memory's state stops the world
		if measured {
			runtime.ReadMemStats(&before)
		}
		r := dialects[which].Read(status, field, body, t0)
		if measured {
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > MaxBody {
				t.Errorf("%s %d %v %q: %d bytes of allocations, want at most %d", dialects[which].Name(), status, fields, body, n, MaxBody)
			}
		}
		checkBounds(t, dialects[which].Name(), r)
		if t.Failed() {
			t.Fatalf("read %d: %s %d %v %q is %+v", i, dialects[which].Name(), status, fields, body, r)
		}
	}
}

// torn is a body, sometimes cut off, with some bytes changed, or within another.
func torn(rng *rand.Rand, bodies [][]byte) []byte {
	body := append([]byte(nil), bodies[rng.IntN(len(bodies))]...)
	switch rng.IntN(4) {
	case 0:
		return body[:rng.IntN(len(body))]
	case 1:
		for range 1 + rng.IntN(4) {
			body[rng.IntN(len(body))] = `{}[]",:\x0-9<u`[rng.IntN(14)]
		}
	case 2:
		other := bodies[rng.IntN(len(bodies))]
		return append(append(body[:rng.IntN(len(body))], other...), body...)
	}
	return body
}
