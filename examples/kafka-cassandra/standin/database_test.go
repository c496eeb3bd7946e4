package standin

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/limit"
)

func session(t *testing.T, d *Database, timeout time.Duration) *gocql.Session {
	t.Helper()
	host, port, err := net.SplitHostPort(d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c := gocql.NewCluster(host)
	c.Port, _ = strconv.Atoi(port)
	c.Timeout, c.WriteCoalesceWaitTime, c.ReconnectInterval = timeout, 0, 100*time.Millisecond
	if d.network != nil {
		c.Dialer = dialer(Dial(d.network))
	}
	s, err := c.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { time.Sleep(time.Second); s.Close() }) // its goroutines have begun
	return s
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

func begin(t *testing.T, n *Network, k Knobs) *Database {
	t.Helper()
	if n != nil {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // the driver's goroutines end
	}
	d, err := Start(n, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	return d
}

func put(s *gocql.Session, device string, at int64, value float64, written int64) error {
	return s.Query("INSERT INTO demo.readings (device, at, value, note) VALUES (?, ?, ?, ?)", device, time.UnixMilli(at), value, "n").WithTimestamp(written).Exec()
}

// TestDatabaseRows: of two writes of one row that of the later time stays, in
// whichever order they come.
func TestDatabaseRows(t *testing.T) {
	d := begin(t, nil, Knobs{})
	s := session(t, d, time.Second)
	for _, w := range []struct {
		value   float64
		written int64
	}{{1, 10}, {3, 30}, {2, 20}} {
		if err := put(s, "a", 1000, w.value, w.written); err != nil {
			t.Fatal(err)
		}
	}
	want := Row{Value: 3, Note: "n", Written: 30, Writes: 3}
	if r, ok := d.Row(Key{"a", time.UnixMilli(1000)}); !ok || r != want || d.Rows() != 1 {
		t.Errorf("row = %+v, %t, of %d; want %+v, the only one", r, ok, d.Rows(), want)
	}
}

// TestDatabaseAnswers: what a write gets in each state of the Database.
func TestDatabaseAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		knobs   Knobs
		timeout time.Duration
		writes  int // at once
		served  int
		code    int   // of the others; zero: err
		err     error // of the others
		rows    int   // in the end
	}{
		{name: "served", writes: 40, served: 40, rows: 40},
		{name: "queue", knobs: Knobs{Service: 300 * time.Millisecond, Width: 2, Queue: 3}, writes: 20, served: 5, code: gocql.ErrCodeOverloaded, rows: 5},
		{name: "rate", knobs: Knobs{Limit: limit.Limit{Count: 3, Period: time.Hour}}, writes: 20, served: 3, code: gocql.ErrCodeOverloaded, rows: 3},
		{name: "patience", knobs: Knobs{Service: 200 * time.Millisecond, Width: 4, Patience: 50 * time.Millisecond}, writes: 20, served: 4, code: gocql.ErrCodeWriteTimeout, rows: 4},
		{name: "gone", knobs: Knobs{Service: 100 * time.Millisecond, Width: 4}, timeout: 150 * time.Millisecond, writes: 12, served: 4, err: gocql.ErrTimeoutNoResponse, rows: 12},
		{name: "fails", knobs: Knobs{Fails: func(device string, _ time.Time) bool { return device < "d05" }}, writes: 20, served: 15, code: gocql.ErrCodeServer, rows: 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				d := begin(t, new(Network), c.knobs)
				s := session(t, d, cmp.Or(c.timeout, 5*time.Second))
				var served atomic.Int64
				var all sync.WaitGroup
				for i := range c.writes {
					all.Go(func() {
						err := put(s, "d"+string(rune('0'+i/10))+string(rune('0'+i%10)), int64(i), 0, 1)
						var e gocql.RequestError
						switch {
						case err == nil:
							served.Add(1)
						case c.err != nil && errors.Is(err, c.err):
						case c.err == nil && errors.As(err, &e) && e.Code() == c.code:
						default:
							t.Errorf("write %d: %T %v, want code %#x or %v", i, err, err, c.code, c.err)
						}
					})
				}
				all.Wait()
				time.Sleep(5 * time.Second) // work for callers that have gone
				if n := served.Load(); n != int64(c.served) || d.Rows() != c.rows {
					t.Errorf("%d served and %d rows, want %d and %d", n, d.Rows(), c.served, c.rows)
				}
				if st := d.Stats(); st.Inside != 0 || st.Written != int64(c.rows) || st.Most > c.writes {
					t.Errorf("stats %+v, want none inside, %d written", st, c.rows)
				}
			})
		})
	}
}

// TestDatabaseStops: it freezes and thaws, ends and starts again on its address,
// with its rows.
func TestDatabaseStops(t *testing.T) { bubble.Test(t, stops) }

func stops(t *testing.T) {
	d := begin(t, new(Network), Knobs{})
	s := session(t, d, 400*time.Millisecond)
	d.Freeze()
	if err := put(s, "a", 1, 0, 1); !errors.Is(err, gocql.ErrTimeoutNoResponse) {
		t.Errorf("frozen: %v, want no response", err)
	}
	d.Thaw()
	if err := put(s, "b", 2, 0, 1); err != nil {
		t.Errorf("thawed: %v", err)
	}
	d.Pause(80 * time.Millisecond)
	began := time.Now()
	if err := put(s, "b", 3, 0, 1); err != nil || time.Since(began) != 81*time.Millisecond {
		t.Errorf("in a pause of 80 ms: %v after %v", err, time.Since(began))
	}
	d.Stop()
	if err := put(s, "c", 3, 0, 1); err == nil {
		t.Error("stopped: a write was served")
	}
	if err := d.Restart(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // the driver connects again
	err := put(s, "d", 4, 0, 1)
	if _, kept := d.Row(Key{"b", time.UnixMilli(2)}); err != nil || !kept {
		t.Errorf("started again: %v, the row from before is there: %t", err, kept)
	}
}
