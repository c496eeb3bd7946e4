package throttlegrpc

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
)

// foe is a server that does with each call what chance tells it. Calls are known
// by their message. Those that it did not refuse it has executed.
type foe struct {
	mu     sync.Mutex
	chance *rand.Rand
	ran    map[string]int
	conns  []net.Conn
}

func (f *foe) pick(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.chance.IntN(n)
}

func (f *foe) run(body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ran[body]++
}

func (f *foe) times(body string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ran[body]
}

func (f *foe) dial(context.Context, string) (net.Conn, error) {
	if f.pick(8) == 0 {
		return nil, errors.New("refused")
	}
	here, there := net.Pipe()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, there)
	go f.serve(there)
	return here, nil
}

func (f *foe) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
}

// peerOf is one connection of a foe.
type peerOf struct {
	*http2.Framer
	net.Conn
	text bytes.Buffer
	code *hpack.Encoder
	last uint32 // stream that is served, once a GOAWAY has said so; zero: all
}

func (f *foe) serve(c net.Conn) {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	p := &peerOf{Framer: http2.NewFramer(c, c), Conn: c}
	p.code = hpack.NewEncoder(&p.text)
	p.WriteSettings()
	bodies := map[uint32]string{}
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			return
		}
		switch x := frame.(type) {
		case *http2.SettingsFrame:
			if !x.IsAck() {
				err = p.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !x.IsAck() && f.pick(3) == 0 {
				p.WriteGoAway(math.MaxInt32>>1|1, http2.ErrCodeEnhanceYourCalm, nil)
				return
			}
			err = p.WritePing(true, x.Data)
		case *http2.DataFrame:
			bodies[x.StreamID] += string(x.Data())
			if x.StreamEnded() && (p.last == 0 || x.StreamID <= p.last) {
				err = f.answer(p, x.StreamID, bodies[x.StreamID])
			}
		}
		if err != nil {
			return
		}
	}
}

// fields sends a frame of header fields, pairs of name and value.
func (p *peerOf) fields(stream uint32, end bool, pairs ...string) error {
	p.text.Reset()
	for i := 0; i < len(pairs); i += 2 {
		p.code.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.text.Bytes(), EndHeaders: true, EndStream: end})
}

// hostile are details and trailers with which a refusal comes.
func (f *foe) hostile() (pairs []string) {
	infos := []*durationpb.Duration{
		nil,
		{Seconds: -1},
		{Seconds: math.MinInt64, Nanos: math.MinInt32},
		{Seconds: math.MaxInt64, Nanos: math.MaxInt32},
		{Seconds: 1, Nanos: -5},
		{Nanos: 1 << 30},
		{Seconds: 2},
		{Seconds: 86400 * 365},
	}
	info, _ := anypb.New(&errdetails.RetryInfo{RetryDelay: infos[f.pick(len(infos))]})
	st, _ := proto.Marshal(&spb.Status{Code: int32(codes.ResourceExhausted), Details: []*anypb.Any{info, {TypeUrl: "no.such/Type", Value: []byte{0xff}}, info}})
	pushed := []string{"", "-1", "9999999999999999999", "NaN", "0", "2147483647", "-9223372036854775808", "1"}
	return []string{
		"grpc-status-details-bin", []string{string(st), "!!!", encoded(st), encoded(st[:len(st)/2])}[f.pick(4)],
		pushback, pushed[f.pick(len(pushed))],
		"ratelimit", []string{`"a";r=0;t=999999999999999`, strings.Repeat(`"x";r=0;t=5, `, 1000), `"a";r=-1;t=NaN`, `"a";r=1;t=1;throttle-share=0.0001`}[f.pick(4)],
	}
}

func encoded(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }

const okMessage = "\x00\x00\x00\x00\x00" // an empty one

// answer does one of the things that a server can do to a call.
func (f *foe) answer(p *peerOf, id uint32, body string) error {
	thing := f.pick(16)
	if thing > 4 {
		f.run(body)
	}
	head := func() { p.fields(id, false, ":status", "200", "content-type", "application/grpc") }
	switch thing {
	case 0: // refused before it was looked at, which gRPC sends again itself
		return p.WriteRSTStream(id, http2.ErrCodeRefusedStream)
	case 1:
		p.WriteGoAway(id-1, http2.ErrCodeEnhanceYourCalm, nil)
		return io.EOF
	case 2, 3: // a refusal, in trailers only
		code := strconv.Itoa(int(codes.ResourceExhausted))
		return p.fields(id, true, append([]string{":status", "200", "content-type", "application/grpc", "grpc-status", code}, f.hostile()...)...)
	case 4:
		return p.fields(id, true, ":status", "429", "content-type", "text/html", "x-envoy-ratelimited", "true")
	case 5: // no trailers
		head()
		return p.WriteData(id, true, []byte(okMessage))
	case 6: // a status that there is not
		return p.fields(id, true, ":status", "200", "content-type", "application/grpc", "grpc-status", []string{"", "99", "-1", "x", "4294967296"}[f.pick(5)])
	case 7:
		return p.WriteRSTStream(id, []http2.ErrCode{http2.ErrCodeInternal, http2.ErrCodeEnhanceYourCalm, http2.ErrCodeCancel, 0xffff}[f.pick(4)])
	case 8: // cut off
		head()
		p.WriteData(id, false, []byte("\x00\x00\x00\x00\x09abc"))
		return io.EOF
	case 9: // longer than anything
		head()
		return p.WriteData(id, false, []byte("\x00\xff\xff\xff\xffabc"))
	case 10:
		head() // and nothing more
		return nil
	case 11: // all is well, and the connection takes no more
		p.last = id
		p.WriteGoAway(id, http2.ErrCodeNo, nil)
	case 12:
		return p.fields(id, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "14", "grpc-message", strings.Repeat("%", 5000))
	}
	head()
	p.WriteData(id, false, []byte(okMessage))
	return p.fields(id, true, "grpc-status", "0")
}

// wireAttack makes calls and streams through a Client to a foe.
func wireAttack(t *testing.T, seed uint64) {
	f := &foe{chance: rand.New(rand.NewPCG(seed, 4)), ran: map[string]int{}}
	defer f.close()
	var api throttle.Throttle
	c := &Client{Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &api }}}
	opts := []grpc.DialOption{grpc.WithContextDialer(f.dial), grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second})}
	if seed%2 == 0 {
		opts = append(opts, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5,
			"initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`))
	}
	conn := dial(t, "passthrough:///foe", c, opts...)
	defer conn.Close()
	chance := rand.New(rand.NewPCG(seed, 5))
	var all sync.WaitGroup
	for i := range 80 {
		patience := time.Duration(1+chance.IntN(20_000)) * time.Millisecond
		streams, cut, name := chance.IntN(3) == 0, chance.IntN(4) == 0, fmt.Sprint("call ", i)
		all.Go(func() { attackOnce(t, f, conn, patience, streams, cut, name) })
		time.Sleep(time.Duration(chance.IntN(200)) * time.Millisecond)
	}
	all.Wait()
	time.Sleep(2 * time.Second) // streams are settled in the background
	if n, w := api.InFlight(), api.Waiting(); n != 0 || w != 0 {
		t.Errorf("%d in flight and %d waiting, want none", n, w)
	}
}

// attackOnce makes one call, or opens one stream, perhaps cancelled on its way.
func attackOnce(t *testing.T, f *foe, conn *grpc.ClientConn, patience time.Duration, streams, cut bool, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if cut {
		time.AfterFunc(patience/2, cancel)
	}
	began := time.Now()
	var err error
	if streams {
		var s grpc.ClientStream
		if s, err = conn.NewStream(ctx, descCount, count); err == nil {
			if err = s.SendMsg(wrapperspb.String(name)); err == nil {
				s.CloseSend()
				_, err = drain(s)
			}
		}
	} else {
		err = conn.Invoke(ctx, echo, wrapperspb.String(name), new(wrapperspb.StringValue))
	}
	if took := time.Since(began); took > patience {
		t.Errorf("took %v, longer than its context of %v", took, patience)
	}
	m, _ := proto.Marshal(wrapperspb.String(name))
	ran := f.times(string([]byte{0, 0, 0, 0, byte(len(m))}) + string(m))
	if ran > 1 {
		t.Errorf("executed %d times: %v", ran, err)
	}
	var gaveUp *throttle.Error
	if errors.As(err, &gaveUp) && ran > 0 && !gaveUp.MayHaveRun {
		t.Errorf("executed, and said to be surely not: %v", err)
	}
	if _, ok := status.FromError(err); !ok {
		t.Errorf("error %v has no status", err)
	}
}

// Whatever a server does with streams and connections, each call ends with its
// context, nothing of it stays behind, what is not idempotent is executed once at
// most, and what was executed is not said to be not.
func TestSoakHostileServer(t *testing.T) {
	seeds := uint64(20)
	if os.Getenv("THROTTLE_SOAK") != "" {
		seeds = 1000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { wireAttack(t, seed) })
		})
	}
}
