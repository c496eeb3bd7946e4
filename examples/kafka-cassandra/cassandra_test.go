package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
)

// TestWrite: what each answer of the database means to the Throttle.
func TestWrite(t *testing.T) {
	const ms = time.Millisecond
	none := limit.Limit{Period: time.Hour}
	good, err := json.Marshal(madeUp(0, 7, 120))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		knobs   standin.Knobs
		before  func(*standin.Database)
		value   string
		timeout bool   // of the try, before that of the driver
		verdict string // served, throttled, failed, ignored, permanent, schema
		late    bool   // the error says that time ran out
	}{
		"Served":     {value: string(good), verdict: "served"},
		"Overloaded": {knobs: standin.Knobs{Limit: none}, value: string(good), verdict: "throttled"},
		"WriteTimeout": {
			knobs: standin.Knobs{Width: 1, Patience: ms}, before: func(d *standin.Database) { d.Pause(50 * ms) },
			value: string(good), verdict: "failed", late: true,
		},
		"NoAnswer":   {knobs: standin.Knobs{Service: time.Minute}, value: string(good), verdict: "failed", late: true},
		"Given up":   {knobs: standin.Knobs{Service: time.Minute}, value: string(good), timeout: true, verdict: "ignored", late: true},
		"Server":     {knobs: standin.Knobs{Fails: func(string, time.Time) bool { return true }}, value: string(good), verdict: "failed"},
		"Down":       {before: func(d *standin.Database) { d.Stop() }, value: string(good), verdict: "failed"},
		"Dropped":    {before: func(d *standin.Database) { d.Alter(standin.Table) }, value: string(good), verdict: "schema"},
		"No JSON":    {value: "{", verdict: "permanent"},
		"No device":  {value: `{"at": 1}`, verdict: "permanent"},
		"Wrong type": {value: `{"device": "a", "at": "now"}`, verdict: "permanent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				s := standins(t, standin.Knobs{})
				d, err := connect(t.Context(), s.options(t, "readings", "-timeout", "1s", "-table", standin.Table))
				if err != nil {
					t.Fatal(err)
				}
				defer d.close()
				s.db.Set(c.knobs)
				if c.before != nil {
					c.before(s.db)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if c.timeout {
					ctx, cancel = context.WithTimeout(ctx, 500*ms)
				}
				defer cancel()
				err = d.write(ctx, []byte(c.value), epoch)
				var late interface{ Timeout() bool }
				if got := verdict(err); got != c.verdict || (errors.As(err, &late) && late.Timeout()) != c.late {
					t.Errorf("%v is %s, timed out %t; want %s, %t", err, got, late != nil, c.verdict, c.late)
				}
			})
		})
	}
}

// verdict is what the Worker makes of an error.
func verdict(err error) string {
	var s *schema
	if errors.As(err, &s) {
		return "schema"
	}
	r := throttle.Classify(err)
	if r.Verdict == pace.Served && err != nil {
		return "permanent"
	}
	return [...]string{pace.Ignored: "ignored", pace.Served: "served", pace.Throttled: "throttled", pace.Failed: "failed"}[r.Verdict]
}

// TestWriteTwice: a record has a row of its own, with the time of the record, so
// that a write which comes late, or again, does not replace a newer one.
func TestWriteTwice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := standins(t, standin.Knobs{})
		d, err := connect(t.Context(), s.options(t, "readings", "-table", standin.Table))
		if err != nil {
			t.Fatal(err)
		}
		defer d.close()
		for _, w := range []struct {
			value float64
			at    time.Duration
		}{{2, time.Second}, {1, 0}, {2, time.Second}} {
			value := fmt.Sprintf(`{"device":"a","at":5,"value":%v}`, w.value)
			if err := d.write(t.Context(), []byte(value), epoch.Add(w.at)); err != nil {
				t.Fatal(err)
			}
		}
		want := standin.Row{Value: 2, Written: epoch.Add(time.Second).UnixMicro(), Writes: 3}
		if r, _ := s.db.Row(standin.Key{Device: "a", At: time.UnixMilli(5)}); r != want || s.db.Rows() != 1 {
			t.Errorf("row = %+v of %d, want %+v alone", r, s.db.Rows(), want)
		}
	})
}

// TestCluster: the settings that cost a factor where they are forgotten.
func TestCluster(t *testing.T) {
	c, err := cluster(options{cassandra: "127.0.0.1:9042", timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if c.WriteCoalesceWaitTime != 0 || c.Timeout != time.Second || c.RetryPolicy != nil || c.ReconnectInterval > time.Second || c.Consistency != gocql.LocalQuorum {
		t.Errorf("cluster %+v", c)
	}
}

// TestThrow: the option is added to a STARTUP, and to nothing else.
func TestThrow(t *testing.T) {
	startup := append([]byte{4, 0, 0, 1, 1, 0, 0, 0, 22, 0, 1, 0, 11}, "CQL_VERSION\x00\x053.0.0"...)
	if !isStartup(startup) || isStartup(startup[:20]) || isStartup([]byte("\x04\x00\x00\x01\x05\x00\x00\x00\x00")) {
		t.Error("what is a STARTUP is not found")
	}
	const want = "\x04\x00\x00\x01\x01\x00\x00\x00\x2c\x00\x02\x00\x0bCQL_VERSION\x00\x053.0.0\x00\x11THROW_ON_OVERLOAD\x00\x011"
	if got := withThrow(startup); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
