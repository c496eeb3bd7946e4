package scene

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Caller sends requests to a service. It is safe for concurrent use.
type Caller struct {
	// URL is the address of the service.
	URL string
	// Key is the API key. If empty, there is none.
	Key string
	// Client sends the requests. If nil, one for all that come from 127.0.0.1.
	Client *http.Client
	// Header holds more fields.
	Header http.Header
}

// Answer is the response of the service.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Took   time.Duration // from before the request until the body was read
}

var local = From("127.0.0.1")

// From returns a client whose requests come from an address of this machine. On
// Linux and Windows all of 127.0.0.0/8 is this machine's; elsewhere the address
// may have to be configured, as by "ifconfig lo0 alias 127.0.0.2" on macOS.
func From(address string) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 200}}
}

// Send sends one request. An error means that there was no answer.
func (c Caller) Send(ctx context.Context, method, path string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, nil)
	if err != nil {
		return Answer{}, err
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	if c.Key != "" {
		req.Header.Set("X-Api-Key", c.Key)
	}
	client := c.Client
	if client == nil {
		client = local
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return Answer{}, fmt.Errorf("the body of the answer to %s %s: %w", method, path, err)
	}
	return Answer{resp.StatusCode, resp.Header, string(body), time.Since(began)}, nil
}

// AtOnce calls f n times at once and waits until all have returned.
func AtOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// Load calls f perSecond times a second until ctx ends, and waits until all have
// returned. Each call is in a goroutine of its own, and does not wait for those
// before; but there are at most most of them, and further calls are left out. A
// machine too busy to be punctual makes up for what it has missed.
func Load(ctx context.Context, perSecond float64, most int, f func()) {
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, most)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	began, sent := time.Now(), 0.0
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticker.C:
		}
		for ; sent < time.Since(began).Seconds()*perSecond; sent++ {
			select {
			case places <- struct{}{}:
				all.Go(func() {
					f()
					<-places
				})
			default:
			}
		}
	}
}
