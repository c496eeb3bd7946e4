package xds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle/cmd/throttle/internal/importenvoy"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/pace"
)

// resourceType is the type of the resources.
const resourceType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

const (
	// maxMessage bounds what the server sends at once.
	maxMessage = 16 << 20
	// maxReason bounds the runes of the reason of a refusal.
	maxReason = 1000
	// ping is the time without a word from the server after which it is pinged: gRPC servers
	// end connections that ping them more often than every 5 minutes.
	ping = 6 * time.Minute
	// gap is the least time from one answer to the next.
	gap = 100 * time.Millisecond
)

// refusals are the waits before each further refusal in a row: many servers answer a refusal
// at once, with the same again.
var refusals = pace.Backoff{Base: time.Second, Cap: 10 * time.Second, Jitter: pace.EqualJitter}

// dial returns a connection, which begins with the first call.
func (c *Client) dial() (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	if c.TLS != nil {
		t, err := c.TLS()
		if err != nil {
			return nil, err
		}
		secure = credentials.NewTLS(t)
	}
	return grpc.NewClient(c.Server, grpc.WithTransportCredentials(secure), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: ping}), grpc.WithDisableServiceConfig())
}

// connection takes what the server sends until the connection ends, and returns why.
func (c *Client) connection(ctx context.Context) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := discoverypb.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return plain(err)
	}
	c.connected()
	return plain((&stream{Client: c, ads: s}).run(ctx))
}

// plain is an error of gRPC in its own words.
func plain(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("it ended the connection")
	}
	return errors.New(words.OneLine(status.Convert(err).Message()))
}

// stream is one connection.
type stream struct {
	*Client
	ads      discoverypb.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	version  string // that was taken last
	refused  int    // in a row
	answered time.Time
}

// run subscribes, and answers what comes. It names no version that it has: some servers count
// from one again after a restart, and would then send nothing for the same number.
func (s *stream) run(ctx context.Context) error {
	err := s.send(&discoverypb.DiscoveryRequest{
		TypeUrl: resourceType, Node: &corepb.Node{Id: s.Node, UserAgentName: "throttle"},
	})
	for err == nil {
		var in *discoverypb.DiscoveryResponse
		if in, err = s.ads.Recv(); err == nil && in.GetTypeUrl() == resourceType {
			err = s.answer(ctx, in)
		}
	}
	return err
}

// send sends a request. That the connection has ended, Recv says with the reason.
func (s *stream) send(out *discoverypb.DiscoveryRequest) error {
	if err := s.ads.Send(out); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// answer puts what came into use, and says so, or why not.
func (s *stream) answer(ctx context.Context, in *discoverypb.DiscoveryResponse) error {
	out := &discoverypb.DiscoveryRequest{TypeUrl: resourceType, ResponseNonce: in.GetNonce()}
	wait := gap - time.Since(s.answered)
	if err := s.take(ctx, in); err != nil {
		out.ErrorDetail = status.New(codes.InvalidArgument, words.Visible(err.Error(), maxReason)).Proto()
		if s.refused > 0 {
			wait = max(wait, refusals.Delay(s.refused-1, 0, pace.Luck(rand.Uint64())))
		}
		s.refused++
	} else {
		s.version, s.refused = in.GetVersionInfo(), 0
	}
	out.VersionInfo = s.version
	if err := sleep(ctx, wait); err != nil {
		return err
	}
	s.answered = time.Now()
	return s.send(out)
}

// take puts what came into use.
func (s *stream) take(ctx context.Context, in *discoverypb.DiscoveryResponse) error {
	data, notes, err := read(in)
	s.set(data, notes, err)
	return s.Use(ctx)
}

// read returns the rules of a response in JSON, and what was left out.
func read(in *discoverypb.DiscoveryResponse) (data []byte, notes []string, err error) {
	var all [][]byte
	for i, r := range in.GetResources() {
		if r.GetTypeUrl() != resourceType {
			return nil, nil, fmt.Errorf("resource %d is a %s; it must be a %s", i, words.Quote(r.GetTypeUrl()), resourceType)
		}
		all = append(all, r.GetValue())
	}
	done, err := importenvoy.Resources(all)
	if err != nil {
		return nil, nil, err
	}
	data, err = json.Marshal(done.Set)
	return data, done.Notes, err
}
