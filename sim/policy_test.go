package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/pace"
)

func TestParsePolicy(t *testing.T) {
	for _, text := range []string{
		"nonsense", "", "backoff(", "backoff)", "backoff(factor)", "backoff(fctor=2)", "backoff(factor=x)",
		"backoff(factor=-1)", "backoff(jitter=big)", "adaptive(probe=20)", "adaptive(probe=-1s)", "none(a=1)",
		"backoff(factor=NaN)", "backoff(factor=2))", "fixed(rate=0)", "backoff(factor=2,factor=3)", "backoff(factor=2, factor =2)",
	} {
		if _, err := ParsePolicy(text); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("ParsePolicy(%q): error %v, want one line", text, err)
		}
	}
	p, err := ParsePolicy(" backoff( factor=2 , cap=30s) ")
	if err != nil || p.Name != "backoff(factor=2,cap=30s)" {
		t.Fatalf("ParsePolicy = %q, %v", p.Name, err)
	}
	if c := fmt.Sprintf("%+v", p.New()); !strings.Contains(c, "Factor:2 ") || !strings.Contains(c, "Cap:30s") {
		t.Errorf("the controller is %s", c)
	}
	if _, err := ParsePolicy("backoff(factor = 2)"); err != nil {
		t.Errorf("spaces around =: %v", err)
	}
	for _, info := range Policies() {
		if _, err := ParsePolicy(info.Name); err != nil || info.About == "" {
			t.Errorf("%s: %v, about %q", info.Name, err, info.About)
		}
	}
}

func TestAPolicysOwnSettingsBeatTheScenarios(t *testing.T) {
	mine := policy(t, "proportional(start=3s)").with(map[string]string{"proportional": "start=1s,min=2s"})
	if c := fmt.Sprintf("%+v", mine.New()); !strings.Contains(c, "Initial:3s") || !strings.Contains(c, "MinSleep:2s") {
		t.Errorf("the controller is %s, want its own start and the scenario's min", c)
	}
}

// A policy need not have a name that ParsePolicy knows.
func TestPolicyOfOnesOwn(t *testing.T) {
	s := emr()
	s.Settings = map[string]string{"fixed": "rate=1"}
	s.Clients[0].Work = 10
	s.Clients = append(s.Clients, s.Clients[0])
	began, made := 0, 0
	p := Policy{Name: "mine", Begin: func() func() pace.Controller {
		began++
		return func() pace.Controller { made++; return &pace.Fixed{Rate: 2} }
	}}
	for seed := range uint64(2) {
		r := New(s, p, seed)
		r.Step(1 << 20)
		if got := r.Result().Throttled; got != 0 {
			t.Errorf("seed %d: %v throttled at half the rate, want 0", seed, got)
		}
	}
	if began != 2 || made != 4 {
		t.Errorf("two runs of two processes began %d times and made %d controllers, want 2 and 4", began, made)
	}
}
