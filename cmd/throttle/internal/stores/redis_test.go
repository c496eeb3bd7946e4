package stores

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// fake is a server that speaks the protocol of Redis. It answers a command, in small
// letters, or without an answer that it does not know it.
type fake struct {
	addr    string
	answers map[string]string
	frozen  atomic.Bool // it accepts connections and answers nothing
	watched atomic.Bool // a client has subscribed
}

func newFake(t *testing.T, answers map[string]string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	f := &fake{addr: l.Addr().String(), answers: answers}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(conn)
		}
	}()
	return f
}

func (f *fake) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		words, err := command(r)
		if err != nil {
			return
		}
		name := strings.ToLower(words[0])
		if name == "subscribe" {
			f.watched.Store(true)
		}
		if f.frozen.Load() {
			continue
		}
		answer, ok := f.answers[name]
		if !ok {
			answer = "-ERR unknown command\r\n"
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// command reads an array of bulk strings.
func command(r *bufio.Reader) (words []string, err error) {
	var n, size int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	for range n {
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, nil
}

// at is the answer of a sentinel that is asked for a master.
func at(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
}

// TestSentinelFrozen: a client leaves a sentinel that answers no more, as where the
// machine that has it and the master is gone. The master here refuses each call, after
// which the client connects again, and asks for the master before.
func TestSentinelFrozen(t *testing.T) {
	master := newFake(t, map[string]string{"evalsha": "-READONLY it is a replica\r\n"})
	var sentinels [3]*fake
	var addrs []string
	for i := range sentinels {
		sentinels[i] = newFake(t, map[string]string{"sentinel": at(master.addr)})
		addrs = append(addrs, sentinels[i].addr)
	}
	s, err := Open(t.Context(), "redis+sentinel://"+strings.Join(addrs, ",")+"/m", Options{
		Command: "serve", Timeout: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	answers := func() error {
		_, err := store.Take(t.Context(), s.Store, "k", limit.Limit{Count: 1, Period: time.Second}, 1)
		if err == nil || !strings.Contains(err.Error(), "READONLY") {
			return fmt.Errorf("a Take: %w, want the READONLY of the master", err)
		}
		return nil
	}
	if err := answers(); err != nil {
		t.Fatal(err)
	}
	var chosen *fake
	for end := time.Now().Add(20 * time.Second); chosen == nil && time.Now().Before(end); {
		for _, f := range sentinels {
			if f.watched.Load() {
				chosen = f
			}
		}
	}
	if chosen == nil {
		t.Fatal("the client has chosen no sentinel")
	}
	chosen.frozen.Store(true)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if err = answers(); err == nil {
			return
		}
	}
	t.Error("with the chosen sentinel frozen: " + err.Error())
}

// TestPatience: a connection without an answer is given up long before the 5 s in which
// tables may be created, and no sooner than a decision is.
func TestPatience(t *testing.T) {
	for _, tt := range []struct{ timeout, deadline, want time.Duration }{
		{time.Second, 0, time.Second},
		{5 * time.Second, 20 * time.Millisecond, 500 * time.Millisecond},
		{5 * time.Second, time.Second, 2 * time.Second},
		{5 * time.Second, 10 * time.Second, 5 * time.Second},
	} {
		if got := (Options{Timeout: tt.timeout, Deadline: tt.deadline}).patience(); got != tt.want {
			t.Errorf("Timeout %v, Deadline %v: patience %v, want %v", tt.timeout, tt.deadline, got, tt.want)
		}
	}
}

// TestRedisHints: an error says what in the URL it may come from.
func TestRedisHints(t *testing.T) {
	quote := func(text string) string { return "-" + text + "\r\n" }
	node := newFake(t, map[string]string{"evalsha": quote("MOVED 13907 127.0.0.1:1")})
	replica := newFake(t, map[string]string{"evalsha": quote("READONLY You can't write")})
	locked := newFake(t, map[string]string{"hello": quote("NOAUTH Authentication required."), "sentinel": quote("NOAUTH Authentication required.")})
	stranger := newFake(t, map[string]string{"sentinel": "*-1\r\n"})
	for url, want := range map[string]string{
		"redis://" + node.addr:                                   "nothing was charged: MOVED 13907 127.0.0.1:1; the server is a node of a Cluster: add ?cluster=true to the URL",
		"redis://" + replica.addr:                                "nothing was charged: READONLY You can't write; the server is a replica: name its primary in the URL, or its sentinels",
		"redis+sentinel://" + locked.addr + "/m":                 "want a password, add ?sentinel_password= to the URL",
		"redis+sentinel://" + stranger.addr + "/m":               "the sentinels know no master by the name in the URL",
		"redis+sentinel://" + sentinelOf(t, replica.addr) + "/m": "READONLY You can't write",
	} {
		s, err := Open(t.Context(), url, Options{Command: "take", Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Take(t.Context(), s.Store, "k", limit.Limit{Count: 1, Period: time.Second}, 1)
		s.Close()
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("a Take at %s: %v, want %s", strings.SplitN(url, ":", 2)[0], err, strconv.Quote(want))
		}
	}
}

// sentinelOf is the address of a sentinel whose master is at addr.
func sentinelOf(t *testing.T, addr string) string {
	t.Helper()
	return newFake(t, map[string]string{"sentinel": at(addr)}).addr
}
