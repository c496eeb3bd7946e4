// Package egress is the command 'throttle egress': a proxy between callers in any
// language and the limited APIs that they call. Each request goes through a
// throttlehttp.Transport, so it is paced, bounded and retried with backoff, and what the
// answers say of the limit is learnt.
package egress

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/cmd/throttle/internal/intercept"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttlepage"
)

// Config configures a Proxy. Nothing in it may change after New.
type Config struct {
	// APIs are the services that callers reach, by name: 1 to 100. A name is the first
	// part of the path of a request, as in /github/user.
	APIs map[string]API
	// MaxBody bounds the bytes of one request's body that are kept in memory, so that
	// the request can be sent again. A longer body is streamed, as one without a length is,
	// and sent once only. If zero, 1 MiB; below zero, none is kept. All together are at
	// most 64 MiB: beyond that bodies are streamed too.
	MaxBody int64
	// MaxRequests bounds the requests at a time, those that wait included: 503 beyond.
	// If zero, 10,000.
	MaxRequests int
	// Timeout bounds the wait for the header of an API's answer, from the end of each
	// try's request. If zero, 10 minutes.
	Timeout time.Duration
	// Intercept lets callers send CONNECT. If nil, it is refused.
	Intercept *Intercept
	// Open passes on, unpaced, what is for other hosts than those of APIs, at private addresses
	// too: CONNECT, if there is an Intercept, and requests with an http URL. Set a Token then, or
	// all who reach it may use it. If false, they are refused.
	Open bool
	// OnEvent is called with each event of the Throttles, see throttle.Throttle.OnEvent. If nil,
	// it is not.
	OnEvent func(throttle.Event)
	// Drain is how it ends.
	Drain Drain
	// Store holds the known limits that processes share, see API.Fleet. It may be nil if no
	// API has that.
	Store store.Store
	// Log is where faults are logged. If nil, they are not.
	Log *slog.Logger
}

// API is a limited service.
type API struct {
	// URL is where it is: http or https, with a path that is put before that of a request
	// or none.
	URL string
	// Account is the header field whose values have a limit each, such as
	// Authorization. At most 1000 of them are remembered besides those in use, see
	// throttle.Group. If empty, all requests share one limit.
	Account string
	// Dialect is the name of a signal.Dialect, which says how the API reports its
	// limits. If empty, it is known by the host.
	Dialect string
	// Rate is the limit where it is known: requests are paced at that rate, and nothing
	// is learnt. Its Burst is 1 if zero. If it is the zero Limit, the rate is learnt.
	Rate limit.Limit
	// Fleet shares Rate with the other processes that use the same Store, see
	// throttle.Fleet. While the Store is away, each goes on by what it learns.
	Fleet bool
	// MaxInFlight bounds the requests in flight for one account. If zero, there is no
	// bound but what is learnt from refusals for too many at once.
	MaxInFlight int
	// MaxWait bounds the time that a request waits for its turn and between tries. If
	// zero, a minute. A request lowers it by the field Throttle-Max-Wait.
	MaxWait time.Duration
	// Private permits connections to private addresses, those of this machine and its
	// networks. If false, they are refused, unless the URL names the address, or localhost.
	Private bool
}

// Drain is how a Proxy ends, after its context has.
type Drain struct {
	// Delay is how long it goes on accepting. If zero, it does not go on.
	Delay time.Duration
	// Timeout bounds the time that requests have after that. If zero, 30 s.
	Timeout time.Duration
}

// Flaw is a mistake in a Config.
type Flaw struct {
	// Path is the place, as in apis.github.url.
	Path string
	// What states the mistake, and a correct form.
	What string
}

// Error returns the place and the mistake.
func (f *Flaw) Error() string { return f.Path + ": " + f.What }

func flawf(path, format string, a ...any) error { return &Flaw{path, fmt.Sprintf(format, a...)} }

const (
	maxAPIs   = 100      // as many have metrics
	maxBodies = 64 << 20 // bytes of bodies in memory
	pageName  = "throttle"
)

// Proxy is the egress proxy, an http.Handler. It is safe for concurrent use.
type Proxy struct {
	cfg      Config
	log      *slog.Logger
	apis     []*api // by name
	reverse  *httputil.ReverseProxy
	others   *httputil.ReverseProxy // of other hosts; nil: they are refused
	page     *throttlepage.Page
	connects *intercept.Proxy // of CONNECT; nil: none
	mark     string           // of this process, by which it knows its own requests
	room     chan struct{}    // holds one for each request
	bodies   atomic.Int64     // bytes kept
	draining atomic.Bool
	watched  context.Context // ends the streams of the page
	unwatch  context.CancelFunc
	bodyIn   time.Duration   // bounds the wait for a body that is kept
	takeIn   time.Duration   // bounds the wait for a caller to read a part of an answer
	lines    operate.Sparing // of the log
}

// New returns a Proxy. The error is a *Flaw. It opens nothing.
func New(c Config) (*Proxy, error) {
	p := &Proxy{cfg: c, log: c.Log, page: &throttlepage.Page{Groups: map[string]*throttle.Group{}, Counters: map[string]*throttle.Counter{}}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if len(c.APIs) == 0 || len(c.APIs) > maxAPIs {
		return nil, flawf("apis", "%d of them: must be 1 to %d", len(c.APIs), maxAPIs)
	}
	var mark [8]byte
	rand.Read(mark[:])
	p.mark = hex.EncodeToString(mark[:])
	p.cfg.MaxBody = cmp.Or(c.MaxBody, 1<<20)
	p.cfg.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	p.cfg.Drain.Timeout = cmp.Or(c.Drain.Timeout, 30*time.Second)
	p.room = make(chan struct{}, cmp.Or(c.MaxRequests, 10_000))
	p.lines.Most = limit.Limit{Count: 10, Period: time.Second}
	for _, name := range slices.Sorted(maps.Keys(c.APIs)) {
		a, err := p.newAPI(name, c.APIs[name])
		if err != nil {
			return nil, err
		}
		for _, other := range p.apis {
			if other.serves(a.base) && a.serves(other.base) {
				return nil, flawf("apis."+name+".url", "is that of %s too; a request by URL could mean either", other.name)
			}
		}
		p.apis = append(p.apis, a)
		p.page.Groups[name], p.page.Counters[name] = &a.group, &a.counter
	}
	p.watched, p.unwatch = context.WithCancel(context.Background())
	p.bodyIn, p.takeIn = time.Minute, 5*time.Minute
	p.reverse = p.proxy()
	if c.Open {
		p.others = p.newOthers()
	}
	if c.Intercept != nil {
		var err error
		if p.connects, err = p.newConnects(c.Intercept); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Names are the names of the APIs, sorted.
func (p *Proxy) Names() (all []string) {
	for _, a := range p.apis {
		all = append(all, a.name)
	}
	return all
}

// Observed returns the Throttles of an API, one for each account, and the counts of
// their calls; nil if there is no such API.
func (p *Proxy) Observed(name string) (*throttle.Group, *throttle.Counter) {
	for _, a := range p.apis {
		if a.name == name {
			return &a.group, &a.counter
		}
	}
	return nil, nil
}

// Page is the page of what each Throttle has learnt, with a link to the URL back. It asks for
// no password.
func (p *Proxy) Page(back string) http.Handler {
	return &throttlepage.Page{Groups: p.page.Groups, Counters: p.page.Counters, Back: back}
}

// CheckName says what is wrong with the name of an API, empty if nothing: one that could not
// stand in a path, or stands for the page.
func CheckName(name string) string {
	switch {
	case name == pageName:
		return "is the path of the page; write another name"
	case strings.Trim(name, ".") == "" || len(name) > 100 || strings.ContainsFunc(name, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("._-", c)
	}):
		return "a name is up to 100 letters, digits and . _ -, as in github"
	}
	return ""
}
