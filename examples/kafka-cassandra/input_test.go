package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/throttle-go/throttle/examples/kafka-cassandra/standin"
	"github.com/throttle-go/throttle/internal/bubble"
)

// TestUsage: wrong flags are one line and code 2.
func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-nothing", "flag provided but not defined: -nothing"},
		{"-timeout x", `invalid value "x" for flag -timeout`},
		{"topic", `argument "topic": there are flags only`},
		{"-topic a -dead a", "-dead a: that is the topic which is read"},
		{"-timeout 1ms", "-timeout and -every must be at least 10ms"},
		{"-most 0", "-most, -window and -bytes must be at least 1"},
		{"-standin -table readings", `-table "readings": want KEYSPACE.TABLE`},
		{"-standin -table demo.readings;drop", "want KEYSPACE.TABLE, in small letters"},
	} {
		var out, stderr bytes.Buffer
		code := command(t.Context(), strings.Fields(c.args), &out, &stderr)
		if got := stderr.String(); code != 2 || !strings.HasPrefix(got, "kafka-cassandra: ") || !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: code %d and %q, want 2 and one line with %q", c.args, code, got, c.want)
		}
	}
	if code := command(t.Context(), []string{"-help"}, new(bytes.Buffer), new(bytes.Buffer)); code != 0 {
		t.Errorf("-help: code %d, want 0", code)
	}
}

// TestProduce: -produce writes as many records as it says, also where they are no
// multiple of the partitions.
func TestProduce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := standins(t, standin.Knobs{})
		s.begin(t, "readings").stop()
		if err := produce(t.Context(), s.options(t, "readings"), partitions, 0, partitions+3); err != nil {
			t.Fatal(err)
		}
		c := s.client(t)
		defer c.Close()
		ends, err := kadm.NewClient(c).ListEndOffsets(t.Context(), "readings")
		got := int64(0)
		ends.Each(func(o kadm.ListedOffset) { got += o.Offset })
		if err != nil || got != partitions+3 {
			t.Errorf("%d records, %v; want %d", got, err, partitions+3)
		}
	})
}

// TestOpen: what cannot work is one clear line before anything is read.
func TestOpen(t *testing.T) {
	without := func(names ...string) []standin.Column {
		return slices.DeleteFunc(slices.Clone(standin.Readings), func(c standin.Column) bool { return slices.Contains(names, c.Name) })
	}
	refused := func(of string) func(*site, *options) {
		return func(s *site, o *options) {
			o.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if strings.HasSuffix(addr, of) {
					return nil, errors.New("connection refused")
				}
				return s.dial(ctx, network, addr)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*site, *options)
		want  string
	}{
		"Brokers":   {refused(":9092"), "no Kafka at [localhost:9092]: "},
		"Cassandra": {refused(":9042"), "no Cassandra at 127.0.0.1 port 9042: "},
		"Topic":     {func(_ *site, o *options) { o.topic = "other" }, "topic other is not there: create it, or start once with -create"},
		"Letters":   {func(_ *site, o *options) { o.dead = "other" }, "topic other is not there: "},
		"Table":     {func(s *site, _ *options) { s.db.Alter(standin.Table) }, "table demo.readings is not there: create it, or start once with -create: CREATE TABLE IF NOT EXISTS demo.readings ("},
		"Column": {
			func(s *site, _ *options) { s.db.Alter(standin.Table, without("note")...) },
			"table demo.readings: column note is not there, want one of type text",
		},
		"Type": {
			func(s *site, _ *options) {
				s.db.Alter(standin.Table, append(without("value"), standin.Column{Name: "value", Type: "int", Kind: "regular"})...)
			},
			"table demo.readings: column value is of type int, want double",
		},
		"Key": {
			func(s *site, _ *options) {
				s.db.Alter(standin.Table, append(without("at"), standin.Column{Name: "at", Type: "timestamp", Kind: "regular"})...)
			},
			"table demo.readings: column at is regular, want clustering, as a write that is repeated must change nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				s := standins(t, standin.Knobs{})
				s.begin(t, "readings").stop()
				o := s.options(t, "readings")
				o.create = false
				c.spoil(s, &o)
				err := start(t.Context(), o, new(bytes.Buffer))
				if err == nil || !strings.HasPrefix(err.Error(), c.want) || errors.As(err, new(usage)) {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		})
	}
}

// TestGone: what goes wrong later ends the program with one clear line, nothing
// committed that is not there, and the program goes on once it is mended.
func TestGone(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*testing.T, *site)
		want  string
		mend  func(*testing.T, *site) (flags []string)
		lost  int64 // rows that are not to come
	}{
		"Table": {
			spoil: func(_ *testing.T, s *site) { s.db.Alter(standin.Table) },
			want:  "table demo.readings is not there: create it",
			mend: func(_ *testing.T, s *site) []string {
				s.db.Alter(standin.Table, standin.Readings...)
				return nil
			},
		},
		"Record": {
			spoil: func(t *testing.T, s *site) { s.send(t, "readings", 0, `{"device":`) },
			want:  "readings[0] stops at offset 400 after 1 tries: ",
			mend:  func(*testing.T, *site) []string { return []string{"-dead", "letters"} },
		},
		"Device": {
			spoil: func(t *testing.T, s *site) { s.send(t, "readings", 3, `{"at": 5}`) },
			want:  "readings[3] stops at offset 400 after 1 tries: ",
			mend:  func(*testing.T, *site) []string { return []string{"-dead", "letters"} },
		},
		"Topic": {
			spoil: func(t *testing.T, s *site) {
				c := s.client(t)
				defer c.Close()
				if _, err := kadm.NewClient(c).DeleteTopics(t.Context(), "readings"); err != nil {
					t.Error(err)
				}
			},
			want: "topic readings is not there any more: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				const each = 400
				s := standins(t, standin.Knobs{Service: 20 * time.Millisecond})
				s.begin(t, "readings").stop()
				s.produce(t, "readings", each)
				one := s.begin(t, "readings").run(t)
				flows(t, one.pipeline, 100)
				c.spoil(t, s)
				select {
				case <-one.ended:
				case <-time.After(time.Minute):
					t.Fatal("it goes on")
				}
				if err := one.stop(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("it ends with %v, want %q", err, c.want)
				}
				if missing, _, committed := s.missing(t, "readings", each); missing != 0 {
					t.Errorf("%d rows missing below %d committed, want none", missing, committed)
				}
				if c.mend == nil {
					return
				}
				two := s.begin(t, "readings", append(c.mend(t, s), "-once")...).run(t)
				<-two.ended
				if missing, above, committed := s.missing(t, "readings", each); two.err != nil || missing+above != 0 || committed < partitions*each {
					t.Errorf("mended: %v; %d missing, %d above %d committed, want all", two.err, missing, above, committed)
				}
			})
		})
	}
}
