// Command accountpool shows many accounts at one address that attack one API,
// each below its own limit: the address is limited as well. Addresses behind a
// trusted proxy count separately, and no caller gets another one by making up
// header fields.
//
//	go run ./examples/owners/accountpool
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/examples/owners/internal/scene"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/throttlehttp"
)

// policy lets an account send 20 requests a minute, and an address 60 searches.
const policy = `{
	"proxies": {"trusted": "127.0.0.2"},
	"rules": [
		{"name": "per-account", "key": "client", "limits": "20/m"},
		{"name": "search-per-address", "match": {"paths": "/search"}, "key": "address", "limits": "60/m"}
	]
}`

// Every address of 127.0.0.0/8 is this machine's.
const (
	proxyAddress  = "127.0.0.2"
	directAddress = "127.0.0.3" // of an account pool
	behindAddress = "127.0.0.4" // of an account pool behind the proxy
	otherAddress  = "127.0.0.5" // of one honest customer behind the proxy
)

const pool, each = 40, 10 // accounts of a pool, and requests of each

func main() {
	scene.Main("many accounts at one address are limited together", func(ctx context.Context, out io.Writer) error {
		groups, _, err := play(ctx)
		if err != nil {
			return err
		}
		return show(out, groups)
	})
}

// group is some accounts at one address, and what they got.
type group struct {
	name          string
	address, path string
	accounts      []string // their API keys
	proxied       bool
	tally         scene.Tally
}

func play(ctx context.Context) (groups []*group, took time.Duration, err error) {
	direct, behind := accounts("direct", pool), accounts("behind", pool)
	groups = []*group{
		{name: "40 accounts, one address", address: directAddress, path: "/search", accounts: direct},
		{name: "40 accounts, one address", address: behindAddress, path: "/search", accounts: behind, proxied: true},
		{name: "one account, another address", address: otherAddress, path: "/search", accounts: accounts("other", 1), proxied: true},
		{name: "the first 40 at another API", address: directAddress, path: "/profile", accounts: direct},
	}
	handler, err := service(groups)
	if err != nil {
		return nil, 0, err
	}
	service, stop, err := scene.Serve(handler)
	if err != nil {
		return nil, 0, err
	}
	defer stop()
	front, stop, err := scene.Serve(proxy(service))
	if err != nil {
		return nil, 0, err
	}
	defer stop()

	began := time.Now()
	var all sync.WaitGroup
	for _, g := range groups {
		to := service
		if g.proxied {
			to = front
		}
		all.Go(func() { g.attack(ctx, to) })
	}
	all.Wait()
	took = time.Since(began)
	for _, g := range groups {
		err = cmp.Or(err, g.tally.Err())
	}
	return groups, took, err
}

func accounts(of string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("key-%s-%d", of, i))
	}
	return keys
}

// attack sends the requests of all accounts, each of which claims to come from
// an address of its own.
func (g *group) attack(ctx context.Context, url string) {
	client := scene.From(g.address)
	defer client.CloseIdleConnections()
	scene.AtOnce(len(g.accounts), func(i int) {
		for j := range each {
			claim := fmt.Sprintf("198.51.100.%d", (i*each+j)%256)
			from := scene.Caller{URL: url, Key: g.accounts[i], Client: client, Header: http.Header{
				"X-Forwarded-For": {claim}, "X-Real-Ip": {claim}, "Forwarded": {"for=" + claim},
			}}
			g.tally.Add(from.Send(ctx, "GET", g.path))
		}
	})
}

// service knows the accounts of all groups.
func service(groups []*group) (http.Handler, error) {
	compiled, err := rules.Parse([]byte(policy))
	if err != nil {
		return nil, err
	}
	customers := make(scene.Keys)
	for _, g := range groups {
		for _, key := range g.accounts {
			customers[key] = "customer of " + key
		}
	}
	live := new(rules.Live)
	live.Swap(compiled)
	return &throttlehttp.Handler{
		Control: &admit.Control{Rules: live},
		Request: customers.Request,
		Next:    http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "found") }),
	}, nil
}

// proxy is a reverse proxy that calls the service from its own address, and adds
// the address of its client to X-Forwarded-For, after what the client has put
// there.
func proxy(service string) http.Handler {
	target, _ := url.Parse(service) // Serve has made it
	return &httputil.ReverseProxy{
		Transport: scene.From(proxyAddress).Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
		},
	}
}

func show(out io.Writer, groups []*group) error {
	rows := []string{"|address|through|path|sent|served|429"}
	for _, g := range groups {
		through := "nothing"
		if g.proxied {
			through = "the proxy"
		}
		rows = append(rows, fmt.Sprintf("%s|%s|%s|%s|%s", g.name, g.address, through, g.path, g.tally.Row()))
	}
	return scene.Table(out, rows...)
}
