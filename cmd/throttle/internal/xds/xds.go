// Package xds takes rules from a management server, as Envoy Gateway is one: it subscribes to
// the configuration of the rate limit service by ADS, state of the world, and says what it
// took and what it refused.
package xds

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/throttle-go/throttle/pace"
)

// Client is a connection to a management server. Its Fetch is that of a rules.Source, and Run
// keeps the connection: whatever the server sends is put into use by Use, whole or not at
// all, and acknowledged, or refused with the reason. While the server is away, what it sent
// last stays. It is safe for concurrent use; the fields must not change after first use.
type Client struct {
	// Server is the HOST:PORT of the management server.
	Server string
	// Node is the id by which the server knows for whom it has resources.
	Node string
	// TLS returns the configuration of the next connection. If nil, connections are plain.
	TLS func() (*tls.Config, error)
	// Use fetches by Fetch and puts that into use, or returns why not: rules.Source.Refresh.
	Use func(ctx context.Context) error
	// Log is where it is said what was left out of what the server sent, each once. If nil,
	// nowhere.
	Log *slog.Logger

	once  sync.Once
	known chan struct{} // closed once there is something to fetch, or a reason why not
	notes []string      // of the latest rules; only Run uses them

	mu   sync.Mutex // guards what follows
	told bool       // known is closed
	data []byte     // the latest rules, in JSON
	tag  string     // of data
	err  error      // why data is not what the server has
}

// steady is how long a connection must last for the next wait to be short again.
const steady = time.Minute

// reconnects are the waits before each further connection in a row.
var reconnects = pace.Backoff{Base: time.Second, Cap: 30 * time.Second, Jitter: pace.EqualJitter}

// Run connects, and again after each loss, until ctx ends.
func (c *Client) Run(ctx context.Context) {
	for tries := 0; ; tries++ {
		began := time.Now()
		err := c.connection(ctx)
		if ctx.Err() != nil {
			return
		}
		c.set(nil, nil, fmt.Errorf("%s: %w", c.Server, err))
		if time.Since(began) >= steady {
			tries = 0
		}
		if sleep(ctx, reconnects.Delay(tries, 0, pace.Luck(rand.Uint64()))) != nil {
			return
		}
	}
}

// Fetch returns the latest rules of the server, in JSON, or why there are none: it waits for
// the first answer. It is the Fetch of a rules.Source.
func (c *Client) Fetch(ctx context.Context, have string) (data []byte, tag string, err error) {
	select {
	case <-c.begun():
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.told:
		return nil, "", fmt.Errorf("%s: it has sent nothing yet; does it have resources for the node %q?", c.Server, c.Node)
	case c.err != nil:
		return nil, "", c.err
	case c.tag == have:
		return nil, have, nil
	}
	return c.data, c.tag, nil
}

// set notes rules, or why those before are not what the server has.
func (c *Client) set(data []byte, notes []string, err error) {
	c.mu.Lock()
	if c.err = err; err == nil {
		sum := sha256.Sum256(data)
		c.data, c.tag = data, hex.EncodeToString(sum[:])
	}
	if !c.told {
		c.told = true
		close(c.begun())
	}
	c.mu.Unlock()
	if err != nil {
		return
	}
	for _, n := range notes {
		if c.Log != nil && !slices.Contains(c.notes, n) {
			c.Log.Warn("not all that the management server sent is in the rules", "from", c.Server, "what", n)
		}
	}
	c.notes = notes
}

// errSilent is why there is nothing new from a server that is connected again.
var errSilent = errors.New("it has sent nothing since it was connected again")

// connected notes that the server is there again, and has sent nothing so far.
func (c *Client) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		c.err = fmt.Errorf("%s: %w", c.Server, errSilent)
	}
}

// begun returns what is closed when there is something to fetch.
func (c *Client) begun() chan struct{} {
	c.once.Do(func() { c.known = make(chan struct{}) })
	return c.known
}

// sleep waits, or returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
