package xds

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/throttle-go/throttle/internal/bubble"
)

// eager is a server that sends the same again, each time that it is answered.
type eager struct {
	discoverypb.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	at []time.Time // of the requests
}

func (e *eager) Send(*discoverypb.DiscoveryRequest) error {
	e.at = append(e.at, time.Now())
	return nil
}

func (e *eager) Recv() (*discoverypb.DiscoveryResponse, error) {
	if len(e.at) == 20 {
		return nil, io.EOF
	}
	return &discoverypb.DiscoveryResponse{TypeUrl: resourceType, VersionInfo: "1"}, nil
}

// TestAnswersArePaced: a server that answers each answer at once is not answered without a
// pause: after refusals, as many servers send again what was refused, an ever longer one.
func TestAnswersArePaced(t *testing.T) {
	for _, x := range []struct {
		name        string
		err         error
		least, most time.Duration // of 19 answers
	}{{"taken", nil, 1800 * time.Millisecond, 1800 * time.Millisecond}, {"refused", errors.New("bad"), 77 * time.Second, 155 * time.Second}} {
		bubble.Test(t, func(t *testing.T) {
			e := new(eager)
			s := &stream{Client: &Client{Use: func(context.Context) error { return x.err }}, ads: e}
			err := s.run(t.Context())
			if took := e.at[19].Sub(e.at[0]); !errors.Is(err, io.EOF) || took < x.least || took > x.most {
				t.Errorf("%s: 19 answers in %v, %v; want %v to %v", x.name, took, err, x.least, x.most)
			}
			if e.at[1] != e.at[0] {
				t.Errorf("%s: the first answer came after %v, want it at once", x.name, e.at[1].Sub(e.at[0]))
			}
		})
	}
}
