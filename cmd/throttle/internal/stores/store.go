// Package stores opens the store that a URL names, for all commands that share
// limits with programs.
package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/links"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
)

// Options are how a command uses a store.
type Options struct {
	// Command is the command, for errors.
	Command string
	// Given names the flag or variable that has the URL, for errors. If empty, -store.
	Given string
	// Timeout bounds each call.
	Timeout time.Duration
	// Deadline is that of a decision, where a Guard is before the store: a server without
	// an answer for much longer is given up. If zero, after Timeout.
	Deadline time.Duration
	// Create makes the tables in PostgreSQL; other stores have none, and refuse it.
	Create bool
	// InProcess allows memory:, the store in this process.
	InProcess bool
	// Callers is how many call at once. If zero, the client's default.
	Callers int
}

// leastPatience is the least time for an answer where decisions need not wait for it: a
// server that is late is to be found late, and not away.
const leastPatience = 500 * time.Millisecond

// patience is how long a server of Redis may take to answer: until then its connection
// is kept, and a client stays with a node or a sentinel that is frozen.
func (o Options) patience() time.Duration {
	if o.Deadline == 0 {
		return o.Timeout
	}
	return min(o.Timeout, max(leastPatience, 2*o.Deadline))
}

// connectWithin bounds all that making a connection takes: names, several answers, TLS.
// A server that is frozen, or was replaced, holds a place of the pool for as long.
func (o Options) connectWithin() time.Duration { return 4 * o.patience() }

// Named is a store that was opened.
type Named struct {
	store.Store
	Name   string // its URL, without what is secret
	Close  func()
	Remote bool // it is asked over a network
}

// Parted reports whether keys may be in different slots of Redis, where a decision
// about several of them is an error.
func (n *Named) Parted() bool {
	s, ok := n.Store.(*throttleredis.Store)
	return ok && s.Slots > 1
}

const knownStores = "write memory:FILE, redis://HOST, redis://HOST,HOST/?cluster=true, redis+sentinel://HOST,HOST/MASTER or postgres://USER@HOST/DATABASE"

// URL returns text, or if it is empty the value of THROTTLE_STORE, or if that is
// empty too otherwise.
func URL(text, otherwise string) string {
	return cmp.Or(text, os.Getenv("THROTTLE_STORE"), otherwise)
}

// Given names the flag or variable that URL reads, where text is the value of -store.
func Given(text string) string {
	if text == "" {
		return "THROTTLE_STORE"
	}
	return "-store"
}

// place is where a mistake in the URL stands, for errors.
func (o Options) place() string { return o.Command + ": " + cmp.Or(o.Given, "-store") }

// Open opens the store that a URL names.
func Open(ctx context.Context, text string, o Options) (*Named, error) {
	scheme, rest, found := strings.Cut(text, ":")
	switch {
	case !found:
		return nil, usage.Errorf("%s %s: %s", o.place(), words.Quote(text), knownStores)
	case scheme == "postgres" || scheme == "postgresql":
		return openPostgres(ctx, text, o)
	case o.Create && (scheme == "memory" || strings.HasPrefix(scheme, "redis")):
		return nil, usage.Errorf("%s: -create: makes tables in PostgreSQL, and the store is of %s:; leave it out", o.Command, words.Quote(scheme))
	case scheme == "memory":
		return o.openMemory(strings.TrimPrefix(rest, "//"))
	}
	u, err := redisURLOf(scheme, rest)
	if err != nil {
		return nil, usage.Errorf("%s %s://: %v", o.place(), words.Quote(scheme), err)
	}
	return openRedis(u, o), nil
}

// openMemory is a file, or, to be measured, a memory.Store.
func (o Options) openMemory(path string) (*Named, error) {
	switch {
	case path == "" && o.InProcess:
		return &Named{Store: new(memory.Store), Name: "memory:", Close: func() {}}, nil
	case path == "":
		return nil, usage.Error(o.place() + " memory: would forget at once; write memory:FILE")
	case o.InProcess:
		return nil, usage.Errorf("%s memory:%s: a file remembers for 'throttle take' alone, and not for -bench; write memory:", o.place(), words.Quote(path))
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usage.Errorf("%s memory:%s: is not a file that remembers; write memory:FILE", o.place(), words.Quote(path))
	}
	// By a symbolic link or not, processes take turns by one lock.
	return &Named{Store: memoryFile(links.Follow(path)), Name: "memory:" + path, Close: func() {}}, nil
}

var (
	errHost   = errors.New("HOST: must be a name or an address, one of IPv6 in [ ]")
	errIPv6   = errors.New("HOST: write an address of IPv6 in [ ], as [::1] or [::1]:PORT")
	errEscape = errors.New("USER:PASSWORD has a % that is not part of an escape such as %25")
	errPort   = errors.New("what follows HOST: must be a number from 1 to 65535; write USER:PASSWORD@HOST where it is a password")
)

// isPort reports whether text is the number of a port.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// redisURL is what the URL of a Redis says.
type redisURL struct {
	scheme         string
	addrs          []string
	user, password string
	db             int
	master         string // if its sentinels are named
	// Of the sentinels; USER:PASSWORD are those of the master.
	sentinelUser, sentinelPassword string
	cluster, tls, strict           bool
	prefix                         string
	slots, batch                   int
	overlap                        time.Duration
}

// name is the URL without what is secret.
func (u *redisURL) name() string {
	text := u.scheme + "://" + strings.Join(u.addrs, ",")
	if u.master != "" {
		text += "/" + u.master
	}
	if u.db != 0 {
		text += "/" + strconv.Itoa(u.db)
	}
	return text
}

// redisURLOf reads scheme:rest. net/url knows no several hosts. Its errors quote no
// part of rest, which may be a part of a password.
func redisURLOf(scheme, rest string) (u *redisURL, err error) {
	u = &redisURL{scheme: scheme}
	kind, sentinel := strings.CutSuffix(scheme, "+sentinel")
	if u.tls = kind == "rediss"; !u.tls && kind != "redis" {
		return u, fmt.Errorf("%s", knownStores)
	}
	rest = strings.TrimPrefix(rest, "//")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if err := u.readUser(rest[:at]); err != nil {
			return u, err
		}
		rest = rest[at+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if err := u.readHosts(hosts, sentinel); err != nil {
		return u, err
	}
	if err := u.readQuery(query); err != nil {
		return u, err
	}
	return u, u.readPath(path, sentinel)
}

// readUser reads USER:PASSWORD. One with a / or ? is refused: it may be a host whose
// prefix has an @.
func (u *redisURL) readUser(text string) (err error) {
	if strings.ContainsAny(text, "/?") {
		return fmt.Errorf("a / or ? before an @; write %%2F and %%3F for those of a password, and %%40 for an @ behind HOST")
	}
	user, password, _ := strings.Cut(text, ":")
	if u.user, err = url.PathUnescape(user); err == nil {
		u.password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errEscape
	}
	return nil
}

func (u *redisURL) readHosts(text string, sentinel bool) error {
	port := "6379"
	if sentinel {
		port = "26379"
	}
	for host := range strings.SplitSeq(text, ",") {
		if host == "" {
			return fmt.Errorf("a HOST is missing; %s", knownStores)
		}
		if words.BareIPv6(host) {
			return errIPv6
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			name := strings.Trim(host, "[]")
			if _, err := netip.ParseAddr(name); err != nil && strings.Contains(name, ":") {
				return errPort
			}
			host = net.JoinHostPort(name, port)
		}
		name, port, _ := net.SplitHostPort(host)
		switch _, err := netip.ParseAddr(name); {
		case err != nil && strings.ContainsAny(name, " %[]\\#:\t"):
			return errHost
		case !isPort(port):
			return errPort
		}
		u.addrs = append(u.addrs, host)
	}
	return nil
}

const (
	mostSlots   = 16384     // of a throttleredis.Store
	mostOverlap = time.Hour // in which nothing would pass
)

func (u *redisURL) readQuery(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return fmt.Errorf("what follows ? cannot be read; write NAME=VALUE, with & between")
	}
	for name := range values {
		if len(values[name]) > 1 {
			return fmt.Errorf("a name behind ? stands there twice; write it once")
		}
		if err := u.set(name, values.Get(name)); err != nil {
			return err
		}
	}
	return nil
}

// set sets what a name behind ? says.
func (u *redisURL) set(name, value string) (err error) {
	switch name {
	case "cluster":
		u.cluster, err = strconv.ParseBool(value)
	case "sentinel_user":
		u.sentinelUser = value
	case "sentinel_password":
		u.sentinelPassword = value
	case "prefix":
		u.prefix = value
	case "slots":
		u.slots, err = strconv.Atoi(value)
	case "batch":
		u.batch, err = strconv.Atoi(value)
	case "overlap":
		u.overlap, err = time.ParseDuration(value)
	case "strict":
		u.strict, err = strconv.ParseBool(value)
	default:
		return fmt.Errorf("a name behind ? is not known; known are cluster, prefix, slots, batch, overlap, strict, sentinel_user and sentinel_password")
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: must be %s", name, cmp.Or(map[string]string{"cluster": "true or false", "strict": "true or false", "overlap": "a duration, such as 3s"}[name], "a number"))
	case name == "prefix" && strings.ContainsAny(value, "{}"):
		return fmt.Errorf("prefix: has braces, which would decide on the slot; write it without")
	case name == "slots" && (u.slots < 1 || u.slots > mostSlots):
		return fmt.Errorf("slots: must be from 1 to %d", mostSlots)
	case u.overlap < 0 || u.overlap > mostOverlap:
		return fmt.Errorf("overlap: must be from 0s to %v", mostOverlap)
	}
	return nil
}

// readPath reads [DB], or MASTER[/DB] of sentinels.
func (u *redisURL) readPath(path string, sentinel bool) (err error) {
	if sentinel {
		if u.master, path, _ = strings.Cut(path, "/"); u.master == "" {
			return fmt.Errorf("the name of the master is missing; write redis+sentinel://HOST,HOST/MASTER")
		}
	}
	if path != "" {
		if u.db, err = strconv.Atoi(path); err != nil || u.db < 0 {
			return fmt.Errorf("what follows HOST/: the number of the database must be a whole number, from 0")
		}
	}
	switch {
	case !sentinel && u.sentinelUser+u.sentinelPassword != "":
		return fmt.Errorf("sentinel_user and sentinel_password are of sentinels; write redis+sentinel://HOST,HOST/MASTER")
	case sentinel && u.sentinelUser != "" && u.sentinelPassword == "":
		return fmt.Errorf("sentinel_user: has no sentinel_password beside it")
	case u.cluster && sentinel:
		return fmt.Errorf("a Cluster has no sentinels; write redis://HOST,HOST/?cluster=true")
	case u.cluster && u.db != 0:
		return fmt.Errorf("a Cluster has the database 0 only")
	case len(u.addrs) > 1 && !u.cluster && !sentinel:
		return fmt.Errorf("several hosts; add ?cluster=true, or write redis+sentinel://HOST,HOST/MASTER")
	}
	return nil
}
