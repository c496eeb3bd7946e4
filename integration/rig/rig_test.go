package rig

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// answers checks that a node is up and has what was written.
func answers(t *testing.T, n *Node) {
	t.Helper()
	n.Must(t, "SET", "k", "v")
	if got := n.Must(t, "GET", "k"); got != "v" {
		t.Fatalf("GET k = %q, want v", got)
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	n := Redis(t)
	answers(t, n)
	n.Restart(t)
	if _, err := n.Do("GET", "k"); err != nil {
		t.Fatal(err)
	}
	n.Kill()
	if _, err := n.Do("PING"); err == nil {
		t.Error("a killed server answers")
	}
	if a, b := SharedRedis(t), SharedRedis(t); a != b {
		t.Errorf("SharedRedis gave servers at %s and %s, want one", a.Addr, b.Addr)
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	s := SharedPostgres(t)
	a, b := s.Database(t), s.Database(t)
	if a == b {
		t.Errorf("two databases are at %s", a)
	}
	p := Postgres(t)
	p.Exec(t, "create unlogged table u (i int)")
	p.Exec(t, "create table l (i int)")
	p.Crash()
	if err := p.exec("select 1"); err == nil {
		t.Error("a crashed server answers")
	}
	p.Restart(t)
	p.Exec(t, "select i from l")
}

// TestDies: engines end with the test that started them, also if that is killed.
func TestDies(t *testing.T) {
	if os.Getenv("RIG_DIES") != "" {
		SharedRedis(t).Freeze()
		fmt.Println(Redis(t).Addr)
		fmt.Println(Postgres(t).Addr)
		fmt.Println(Sentinel(t, 1).Sentinels[0].Addr)
		select {}
	}
	t.Parallel()
	_, noRedis := redisServer()
	_, noPostgres := postgresProgram("postgres")
	check(t, errors.Join(noRedis, noPostgres))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDies$")
	child.Env = append(os.Environ(), "RIG_DIES=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for lines := bufio.NewScanner(out); len(addrs) < 3 && lines.Scan(); {
		addrs = append(addrs, lines.Text())
	}
	child.Process.Kill()
	child.Wait()
	if len(addrs) < 3 {
		t.Fatalf("the child started engines at %q only", addrs)
	}
	for _, addr := range addrs {
		Until(t, addr+" is gone", func() error {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
				return errors.New("it is not")
			}
			return nil
		})
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	_, err := program("some-package", "no-such-program", "/no/such/folder/*/program")
	const want = "no-such-program is not installed: scripts/need.sh installs it, or on Debian: apt-get install some-package"
	if !errors.Is(err, errMissing) || err.Error() != want {
		t.Errorf("program = %q, want %q", err, want)
	}
	if path, err := program("coreutils", "no-such-program", "/bin/tru[e]"); err != nil || path != "/bin/true" {
		t.Errorf("program = %q, %v, want /bin/true", path, err)
	}
}

func TestRedisPair(t *testing.T) {
	t.Parallel()
	p := RedisPair(t)
	answers(t, p.Primary)
	Until(t, "the replica has it", func() error {
		if got := p.Replica.Must(t, "GET", "k"); got != "v" {
			return errors.New("GET k = " + got)
		}
		return nil
	})
	p.Link.Set(Fault{Stall: true})
	p.Primary.Must(t, "SET", "k", "later")
	p.Primary.Kill()
	p.Replica.Promote(t)
	if got := p.Replica.Must(t, "GET", "k"); got != "v" {
		t.Errorf("the promoted replica has k = %q, want v: what was stalled is lost", got)
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	w := Sentinel(t, 3)
	first := w.Primary(t)
	first.Kill()
	Until(t, "the other is the primary", func() error {
		n := w.Primary(t)
		if n == first {
			return errors.New("it is not")
		}
		return n.Says("replication", "role:master")
	})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := SharedCluster(t)
	master, replica := c.Owner(t, "k")
	answers(t, c.Nodes[master])
	if replica != master+masters {
		t.Errorf("the replica of node %d is node %d, want %d", master, replica, master+masters)
	}
	c.Nodes[master].Kill()
	Until(t, "the replica is master", func() error {
		if got, _, err := c.OwnerBy(replica, "k"); err != nil || got != replica {
			return fmt.Errorf("node %d: %v", got, err)
		}
		return nil
	})
	c.Mend(t)
	if master2, replica2 := c.Owner(t, "k"); master2 != replica || replica2 != master {
		t.Errorf("after a fail-over and Mend the master and replica are %d, %d, want %d, %d", master2, replica2, replica, master)
	}
}

func TestPart(t *testing.T) {
	t.Parallel()
	c := ProxiedCluster(t)
	master, replica := c.Owner(t, "k")
	c.Part(master)
	Until(t, "the replica is master", func() error {
		if got, _, err := c.OwnerBy(replica, "k"); err != nil || got != replica {
			return fmt.Errorf("node %d: %v", got, err)
		}
		return nil
	})
	Until(t, "the master gives up", func() error { return c.Nodes[master].Says("cluster", "cluster_state:fail") })
	c.Mend(t)
}

func TestValkey(t *testing.T) {
	t.Parallel()
	answers(t, Valkey(t))
}

func TestPostgresPair(t *testing.T) {
	t.Parallel()
	p := PostgresPair(t)
	p.Primary.Exec(t, "create table n as select 1 as i")
	Until(t, "the standby has it", p.InStep)
	p.Link.Set(Fault{Stall: true})
	p.Primary.Exec(t, "update n set i = 2")
	p.Primary.Kill()
	p.Standby.Promote(t)
	if n := p.Standby.Number(t, "select i from n"); n != 1 {
		t.Errorf("n = %d on the promoted standby, want 1: what was stalled is lost", n)
	}
	p.Standby.Exec(t, "update n set i = 3")
}

// ahead is how far a Redis server's clock is ahead of ours.
func ahead(t *testing.T, n *Node) time.Duration {
	t.Helper()
	v, err := redis.Int64s(n.Do("TIME"))
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(time.Unix(v[0], v[1]*1000)).Round(time.Minute)
}

func TestClock(t *testing.T) {
	t.Parallel()
	c := NewClock(t)
	n, s := c.Redis(t), c.Postgres(t)
	for _, d := range []time.Duration{0, 5 * time.Minute, -10 * time.Minute} {
		c.Shift(t, d)
		if got := ahead(t, n); got != d {
			t.Errorf("Shift(%v): Redis is %v ahead", d, got)
		}
		query := fmt.Sprintf("select (round(extract(epoch from clock_timestamp() - to_timestamp(%d))/60))::int", time.Now().Unix())
		if got := s.Number(t, query); got != int64(d.Minutes()) {
			t.Errorf("Shift(%v): PostgreSQL is %d minutes ahead", d, got)
		}
	}
}
