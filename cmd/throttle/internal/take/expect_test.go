package take

import (
	"context"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// server starts a Redis, as a replica of another if that is named.
func server(t *testing.T, primary string) *client.Client {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is missing; scripts/need.sh installs it")
	}
	addr := clitest.Vacant(t)
	_, port, _ := net.SplitHostPort(addr)
	args := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir(), "--repl-diskless-sync-delay", "0"}
	if primary != "" {
		args = append(args, "--replicaof", strings.Replace(primary, ":", " ", 1))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := client.NewClient(&client.Options{Addr: addr})
	t.Cleanup(func() { c.Close(); cancel(); _ = cmd.Wait() })
	shows(t, c, "role:")
	return c
}

// shows waits until INFO of a server has a text, and returns what it has.
func shows(t *testing.T, c *client.Client, want string) (info string) {
	t.Helper()
	for range 500 {
		if info = c.Info(t.Context(), "server", "replication").Val(); strings.Contains(info, want) {
			return info
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("INFO never shows %q: %s", want, info)
	return ""
}

// TestExpect: where a fail-over was announced, the limits go on as before; where the announcement
// was taken back, they begin used up.
func TestExpect(t *testing.T) {
	primary := server(t, "")
	replica := server(t, primary.Options().Addr)
	process := regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(shows(t, replica, "master_link_status:up"))[1]
	take := func(on *client.Client, want string, args ...string) {
		t.Helper()
		all := append([]string{"take", "-timeout", "10s", "-store", "redis://" + on.Options().Addr}, args...)
		stdout, stderr, _ := play(t.Context(), all...)
		if got := stdout + stderr; !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("throttle %s: %q, want %q", strings.Join(all, " "), got, want)
		}
	}
	follows := func(c, of *client.Client) {
		t.Helper()
		host, port := "NO", "ONE"
		if of != nil {
			host, port, _ = net.SplitHostPort(of.Options().Addr)
		}
		if err := c.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	take(primary, "allowed: 1 of k; 2 of 3", "3/h", "k")
	take(primary, "announced: "+process+" may take over within 1m0s", "-expect", process, "-within", "1m")
	// WAIT waits for what its own connection wrote, and what was written before.
	conn := primary.Conn()
	defer conn.Close()
	if err := conn.Set(t.Context(), "last", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(t.Context(), 1, 5*time.Second).Result(); err != nil || n < 1 {
		t.Fatalf("%d replicas have it: %v", n, err)
	}
	follows(replica, nil)
	take(replica, "allowed: 1 of k; 1 of 3", "3/h", "k")
	take(replica, "announced: ", "-expect", regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(shows(t, primary, "run_id"))[1])
	take(replica, "no fail-over is announced any more", "-expect", "none")
	follows(primary, replica)
	shows(t, primary, "master_link_status:up")
	follows(primary, nil)
	take(primary, "denied: 1 of k", "3/h", "k")
}

// TestExpectUsage: what cannot be announced is said in one line.
func TestExpectUsage(t *testing.T) {
	process := strings.Repeat("0a", 20)
	for _, c := range []struct{ args, want string }{
		{"-expect abc", "-expect abc: must be the run_id of a Redis process"},
		{"-expect " + process + " 3/h k", "3/h: -expect announces a fail-over and takes nothing"},
		{"-expect " + process + " -within 25h", "-within 25h0m0s: must be above zero and at most 24h0m0s"},
		{"-expect " + process + " -json", "-json: is not for -expect"},
		{"-expect none -timeout 0s", "-timeout 0s: must be above zero"},
		{"-within 1m 3/h k", "-within: is for -expect"},
		{"-expect none -store memory:" + t.TempDir() + "/x", "-expect: is for a store in Redis, and memory:"},
	} {
		stdout, stderr, code := play(t.Context(), append([]string{"take"}, strings.Fields(c.args)...)...)
		if code != 2 || stdout != "" || !strings.HasPrefix(stderr, "throttle: take: "+c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("throttle take %s: %d, %q, %q; want 2, %q", c.args, code, stdout, stderr, c.want)
		}
	}
}
