package table

import (
	"strings"
	"testing"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/policy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/scenario"
)

// Below a table stands what the names of the policies do not say.
func TestSettingsBelowTables(t *testing.T) {
	s, err := scenario.Parse("some.yaml", []byte(`
duration: 10s
server: {rate: 9/s}
settings: {gradual: {start: 1s}}
clients:
  - {processes: 2}
  - {policy: x-time-rate}
  - {policy: omniscient, processes: 3}
  - {policy: backoff}
`))
	if err != nil {
		t.Fatal(err)
	}
	policies, err := policy.Read([]string{"fixed,gradual,autosleeper,x-time-rate,none"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := Write(&b, []batch.Result{batch.Run(t.Context(), s, policies, 1, 1, nil)}, false, 0); err != nil {
		t.Fatal(err)
	}
	_, below, _ := strings.Cut(b.String(), "\n\nfixed is")
	want := ` fixed(rate=4): 4 requests a second of a process
gradual is gradual(start=1s), as the scenario says
autosleeper is autosleeper(initial=500ms,max=15m,up=1.5,down=0.9,randomization=0.3,max-randomization=2m,threshold=10)
x-time-rate is given 1.286 a second for each process, an even part of the rate at the start
clients 2, which are x-time-rate, are given 1.286 a second for each process, an even part of the rate at the start
clients 3, which are omniscient, are given the rate, its changes and who is there when
`
	if below != want {
		t.Errorf("below the table stands\n%s\nwant\n%s\nof\n%s", below, want, b.String())
	}
}

// The rate of fixed is in the unit of the limit.
func TestFixedOfCosts(t *testing.T) {
	for counts, want := range map[string]string{
		"cost":     "fixed is fixed(rate=4): 4 a second of what calls cost, in a process",
		"requests": "fixed is fixed(rate=4): 4 requests a second of a process",
	} {
		s, err := scenario.Parse("some.yaml", []byte("duration: 10s\nserver: {rate: 9/s, counts: "+counts+"}\nclients: [{cost: 5}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := settingsOf(s, "fixed"); got != want {
			t.Errorf("where %s count: %s, want %s", counts, got, want)
		}
	}
}
