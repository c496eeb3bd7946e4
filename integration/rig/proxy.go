package rig

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// mostLinks is how many connections a Proxy has at once. It closes those
// beyond.
const mostLinks = 1024

// A Fault is a disturbance of the connections through a [Proxy]. The zero Fault
// does nothing.
type Fault struct {
	// Delay is how long each piece of up to 16 KiB waits before it goes on,
	// either way, and what comes behind it too.
	Delay time.Duration
	// Stall holds back everything, both ways: connections are made and stay,
	// and nothing comes through them until another fault is set. A partition
	// looks like this but for the making of connections.
	Stall bool
	// Slice writes each byte on its own.
	Slice bool
	// Reset closes a connection by a reset after so many bytes of answers, in
	// all of its life. If zero, never.
	Reset int64
	// Truncate ends the answer after so many bytes as if it were complete. The
	// proxy reads and drops what the client still sends: a close with something
	// unread would be a reset.
	Truncate int64
	// From restricts the fault to connections from that address. If zero, all.
	From netip.Addr
}

// A Proxy passes TCP connections on to a target and applies a Fault to them. Its
// methods are safe for concurrent use.
type Proxy struct {
	// Addr is the address that it listens on, and Port its port.
	Addr string
	Port int

	target string
	listen net.Listener
	all    sync.WaitGroup // of its goroutines

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed by Set
	links   map[*link]struct{}
	closed  bool
}

// NewProxy starts a proxy that ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := startProxy(target)
	check(t, err)
	t.Cleanup(p.Close)
	return p
}

func startProxy(target string) (*Proxy, error) {
	l, err := listen()
	if err != nil {
		return nil, err
	}
	at := portOf(l)
	p := &Proxy{
		Addr: local(at), Port: at, target: target, listen: l,
		changed: make(chan struct{}), links: map[*link]struct{}{},
	}
	p.all.Go(p.accept)
	return p, nil
}

// Set changes the fault, for what passes from now on, held back before or not.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// Heal ends the fault.
func (p *Proxy) Heal() { p.Set(Fault{}) }

// Cut resets the connections that there are. What was held back in them is
// lost.
func (p *Proxy) Cut() {
	for _, l := range p.open() {
		l.end(true)
	}
}

// Mute closes each open connection when, after so many pieces, the next piece of
// an answer comes, which is not passed on: the request has been carried out
// then. Later connections are not affected.
func (p *Proxy) Mute(pieces int64) {
	for _, l := range p.open() {
		l.left.Store(pieces)
		l.mute.Store(true)
	}
}

// Links returns the number of connections.
func (p *Proxy) Links() int { return len(p.open()) }

// Close ends the proxy and its connections, and returns when that is done.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listen.Close()
	p.Cut()
	p.all.Wait()
}

func (p *Proxy) open() (all []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		all = append(all, l)
	}
	return all
}

// state is the fault for connections from an address, and what is closed when
// another is set.
func (p *Proxy) state(from netip.Addr) (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault.From.IsValid() && p.fault.From != from {
		return Fault{}, p.changed
	}
	return p.fault, p.changed
}

func (p *Proxy) accept() {
	for {
		c, err := p.listen.Accept()
		if err != nil {
			return
		}
		l := &link{proxy: p, client: c.(*net.TCPConn), done: make(chan struct{})}
		l.from = c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		p.mu.Lock()
		refused := p.closed || len(p.links) >= mostLinks
		if !refused {
			p.links[l] = struct{}{}
		}
		p.mu.Unlock()
		if refused {
			c.Close()
			continue
		}
		p.all.Go(l.run)
	}
}

// A link is one connection through a proxy.
type link struct {
	proxy    *Proxy
	from     netip.Addr
	client   *net.TCPConn
	answered int64 // bytes passed to the client; only the pump of answers uses it

	over atomic.Bool // truncated: nothing more goes either way
	mute atomic.Bool
	left atomic.Int64 // pieces of answers before it is mute

	once sync.Once
	done chan struct{} // closed by end

	mu     sync.Mutex
	server *net.TCPConn // nil until it is there
}

// run connects to the target and passes on both ways until either side ends.
func (l *link) run() {
	defer l.end(false)
	if !l.await() {
		return
	}
	c, err := net.Dial("tcp", l.proxy.target)
	if err != nil {
		l.end(true) // as the target itself would
		return
	}
	server := c.(*net.TCPConn)
	l.mu.Lock()
	l.server = server
	l.mu.Unlock()
	select {
	case <-l.done: // ended while it dialled
		server.Close()
		return
	default:
	}
	var up sync.WaitGroup
	up.Go(func() { l.pump(server, l.client, false) })
	l.pump(l.client, server, true)
	up.Wait()
}

// end closes both sides, once, and takes the link from the proxy.
func (l *link) end(reset bool) {
	l.once.Do(func() {
		close(l.done)
		l.mu.Lock()
		defer l.mu.Unlock()
		if reset {
			l.client.SetLinger(0)
		}
		l.client.Close()
		if l.server != nil {
			l.server.Close()
		}
		l.proxy.mu.Lock()
		delete(l.proxy.links, l)
		l.proxy.mu.Unlock()
	})
}

// pump passes on what comes from one side.
func (l *link) pump(to, from *net.TCPConn, answers bool) {
	defer func() {
		if !answers || !l.over.Load() {
			l.end(false)
		}
	}()
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		if answers && l.mute.Load() && l.left.Add(-1) < 0 {
			return
		}
		passed := l.pass(to, b[:n], answers)
		if err != nil || !passed && (answers || !l.over.Load()) {
			return
		}
	}
}

// truncate ends the answers and the server's side. The pump of requests goes on
// reading until the client ends.
func (l *link) truncate() {
	l.over.Store(true)
	l.client.CloseWrite()
	l.server.Close()
}

// pass writes one piece by the fault of the moment, and tells whether the
// connection goes on.
func (l *link) pass(to *net.TCPConn, b []byte, answers bool) bool {
	if f, _ := l.proxy.state(l.from); f.Delay > 0 && len(b) > 0 && !l.sleep(f.Delay) {
		return false
	}
	for len(b) > 0 {
		if !l.await() {
			return false
		}
		f, _ := l.proxy.state(l.from)
		n := len(b)
		if f.Slice {
			n = 1
		}
		if most := max(f.Reset, f.Truncate); answers && most > 0 {
			n = int(min(int64(n), most-l.answered))
			if n <= 0 && f.Reset > 0 {
				l.end(true)
				return false
			}
			if n <= 0 {
				l.truncate()
				return false
			}
		}
		if _, err := to.Write(b[:n]); err != nil {
			return false
		}
		if answers {
			l.answered += int64(n)
		}
		b = b[n:]
	}
	return true
}

// await waits until nothing is held back, or the link ends.
func (l *link) await() bool {
	for {
		f, changed := l.proxy.state(l.from)
		if !f.Stall {
			return true
		}
		select {
		case <-changed:
		case <-l.done:
			return false
		}
	}
}

func (l *link) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.done:
		return false
	}
}
