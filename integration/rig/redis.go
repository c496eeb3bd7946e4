package rig

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A Node is one server of Redis or Valkey, or one sentinel.
type Node struct {
	*Process
	// Addr is its host and port.
	Addr string
	// Port is the port of Addr.
	Port int
}

// Do sends one command on a connection of its own, with a deadline of two
// seconds.
func (n *Node) Do(args ...any) (any, error) {
	const most = 2 * time.Second
	c, err := redis.Dial("tcp", n.Addr, redis.DialConnectTimeout(most), redis.DialReadTimeout(most), redis.DialWriteTimeout(most))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(args[0].(string), args[1:]...)
}

// Must is Do with the answer as text; the test ends if it fails.
func (n *Node) Must(t testing.TB, args ...any) string {
	t.Helper()
	v, err := n.Do(args...)
	if err != nil {
		t.Fatalf("rig: %s: %v: %v", n.Addr, args, err)
	}
	if text, err := redis.String(v, nil); err == nil {
		return text
	}
	return fmt.Sprint(v)
}

// Redis starts one redis-server that keeps nothing on disk. Arguments are
// those of redis-server, such as "--maxmemory", "20mb". It is there in some
// 20 ms.
func Redis(t testing.TB, args ...string) *Node {
	t.Helper()
	return server(t, plan{find: redisServer, args: volatile(args...)})
}

// Valkey starts a server as Redis does, with valkey-server.
func Valkey(t testing.TB, args ...string) *Node {
	t.Helper()
	return server(t, plan{find: valkeyServer, args: volatile(args...)})
}

// Redis8 starts a server as Redis does, with the redis-server of Redis 8, where
// scripts/need.sh puts it, or $REDIS8.
func Redis8(t testing.TB, args ...string) *Node {
	t.Helper()
	return server(t, plan{find: redis8Server, args: volatile(args...)})
}

// SharedRedis returns one server for all tests of the binary that ask for it:
// keys of others are in it, its scripts may be there or not.
func SharedRedis(t testing.TB) *Node {
	t.Helper()
	n, err := sharedRedis()
	check(t, err)
	return n
}

var sharedRedis = sync.OnceValues(func() (*Node, error) {
	return again(plan{find: redisServer, args: volatile()}.start)
})

// redisServer and the like find a program. $REDIS_SERVER is another one to do all
// that redis-server is to do, as make integration does.
func redisServer() (string, error) {
	return program("redis-server", cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"))
}

func redis8Server() (string, error) {
	if path := os.Getenv("REDIS8"); path != "" {
		return path, nil
	}
	return program("redis-server of Redis 8", ours("redis-server-8")...)
}

// valkeyServer is in the path, or where scripts/need.sh puts it: Debian 12 has
// none.
func valkeyServer() (string, error) {
	return program("valkey-server", append([]string{"valkey-server"}, ours("valkey-server")...)...)
}

// ours is where a file in the .bin of the repository may be, up to its root.
func ours(file ...string) (places []string) {
	dir, err := os.Getwd()
	for range 4 {
		if err != nil {
			break
		}
		places = append(places, filepath.Join(append([]string{dir, ".bin"}, file...)...))
		dir = filepath.Dir(dir)
	}
	return places
}

// A plan is how one server is started.
type plan struct {
	find  func() (string, error) // its program
	port  int                    // if zero, a free one
	args  []string               // go last
	env   []string
	files map[string]string // written into its folder before, by name
}

func server(t testing.TB, p plan) *Node {
	t.Helper()
	n, err := again(p.start)
	check(t, err)
	t.Cleanup(n.remove)
	return n
}

func (p plan) start() (*Node, error) {
	path, err := p.find()
	if err != nil {
		return nil, err
	}
	if p.port == 0 {
		if p.port, err = port(); err != nil {
			return nil, err
		}
	}
	dir, err := folder(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	for name, text := range p.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	n := &Node{Addr: local(p.port), Port: p.port, Process: &Process{Dir: dir, path: path, env: p.env}}
	n.args = append(slices.Clone(p.args), "--port", strconv.Itoa(p.port), "--bind", "127.0.0.1", "--dir", dir, "--protected-mode", "no")
	n.ready = func() error {
		_, err := n.Do("PING")
		return err
	}
	if err := n.start(); err != nil {
		n.remove()
		return nil, err
	}
	return n, nil
}

// volatile are the settings of a server that keeps nothing on disk and whose
// replicas follow without delay.
func volatile(args ...string) []string {
	return append([]string{
		"--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
	}, args...)
}
