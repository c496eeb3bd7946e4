package check

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
)

// request is the request of the flags.
type request struct {
	text, address, client string
	domain, descriptor    string // of Envoy
	header                http.Header
	values                map[string]string
	costs                 map[string]int64
}

// described reports whether it is a descriptor.
func (q *request) described() bool { return q.domain != "" || q.descriptor != "" }

// given reports whether there is one.
func (q *request) given() bool { return q.text != "" || q.described() }

// misplaced says which flag is not for a descriptor, or "".
func (q *request) misplaced() string {
	switch {
	case !q.described():
	case q.address != "":
		return "-address is for -request; the address of a descriptor is an entry: -descriptor remote_address=" + q.address
	case q.client != "":
		return "-client is for -request: a descriptor has no client"
	case len(q.header) > 0:
		return "-H is for -request: a descriptor has no header"
	}
	return ""
}

// descriptorOf returns a descriptor as the service for Envoy sees it.
func (q *request) descriptorOf() (r rules.Request, err error) {
	r = rules.Request{Domain: q.domain, Value: q.value, Cost: q.cost}
	if r.Descriptor, err = rules.ParseDescriptor(q.descriptor); err != nil {
		return r, usage.Errorf("check: -%s", strings.TrimPrefix(err.Error(), "rules: "))
	}
	if r.Domain == "" || len(r.Descriptor) == 0 { // what the service refuses would be explained as what passes
		return r, usage.Errorf("check: write -domain and -descriptor, as Envoy sends both")
	}
	r.Address = r.EntryAddress()
	return r, nil
}

func (q *request) value(name string) (string, bool) { v, ok := q.values[name]; return v, ok }

func (q *request) cost(name string) int64 {
	if n, ok := q.costs[name]; ok {
		return n
	}
	return 1
}

// of returns it as the gateway in c would see it, if any.
func (q *request) of(c *config.File, compiled *rules.Compiled) (r rules.Request, err error) {
	if q.described() {
		return q.descriptorOf()
	}
	method, target, found := strings.Cut(strings.TrimSpace(q.text), " ")
	if !found {
		method, target = http.MethodGet, method
	}
	u, err := url.ParseRequestURI(strings.TrimSpace(target)) // as net/http does: //x/y is a path
	if err != nil || u.Path == "" || u.Path[0] != '/' || strings.ToUpper(method) != method {
		return r, usage.Errorf("check: -request %s: must be METHOD PATH, as in 'GET /x'", words.Quote(q.text))
	}
	address := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if q.address != "" {
		if address, err = netip.ParseAddr(q.address); err != nil {
			return r, usage.Errorf("check: -address %s: must be an address, as 192.0.2.1", words.Quote(q.address))
		}
	}
	host := u.Host
	if named := q.header.Get("Host"); named != "" {
		host = named
	}
	r = rules.Request{
		Method: method, Host: host, Path: u.Path, RawPath: u.RawPath, Client: q.client,
		Address: compiled.ClientAddress(address, q.header.Values),
		Header:  q.header.Get,
		Value:   q.value,
		Cost:    q.cost,
	}
	if c != nil && c.Gateway != nil {
		q.behind(c.Gateway, address, &r)
	}
	return r, nil
}

// behind is what the proxies of a gateway say.
func (q *request) behind(g *config.Gateway, address netip.Addr, r *rules.Request) {
	if len(g.Proxies) > 0 {
		r.Address = rules.ClientAddress(address, rules.Proxies{Trusted: g.Proxies, Header: g.ProxyHeader}, q.header.Values)
	}
	if id := g.Identity; id != nil && r.Client == "" && slices.ContainsFunc(id.From, func(p netip.Prefix) bool { return p.Contains(address) }) {
		r.Client = q.header.Get(id.Header)
	}
}

// addHeader reads NAME: VALUE.
func (q *request) addHeader(text string) error {
	name, value, found := strings.Cut(text, ":")
	if !found || strings.TrimSpace(name) == "" || strings.ContainsAny(name, " \t") {
		return usage.Errorf("must be 'Name: value'")
	}
	q.header.Add(textproto.CanonicalMIMEHeaderKey(name), strings.TrimSpace(value))
	return nil
}

// addValue reads NAME=VALUE.
func (q *request) addValue(text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found || name == "" {
		return usage.Errorf("must be NAME=VALUE")
	}
	q.values[name] = value
	return nil
}

// addCost reads NAME=N.
func (q *request) addCost(text string) error {
	name, value, _ := strings.Cut(text, "=")
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || name == "" {
		return usage.Errorf("must be NAME=N")
	}
	q.costs[name] = n
	return nil
}

// known are the names that the flags give values and costs for.
func (q *request) known() (all []string) {
	for name := range q.values {
		all = append(all, name)
	}
	for name := range q.costs {
		all = append(all, name)
	}
	return all
}
