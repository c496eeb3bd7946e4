package xds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

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

// scripted is a server that sends one response after the other.
type scripted struct {
	discoverypb.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	sends []*discoverypb.DiscoveryResponse
	got   []string
}

func (s *scripted) Send(r *discoverypb.DiscoveryRequest) error {
	s.got = append(s.got, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.GetVersionInfo(), r.GetResponseNonce(), r.GetErrorDetail().GetMessage())))
	return nil
}

func (s *scripted) Recv() (*discoverypb.DiscoveryResponse, error) {
	if len(s.sends) == 0 {
		return nil, io.EOF
	}
	in := s.sends[0]
	s.sends = s.sends[1:]
	return in, nil
}

// TestAnswers: an answer has the nonce, the version that was taken last, and what is wrong.
// What is of another type is not answered.
func TestAnswers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		other := []*anypb.Any{{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}}
		ads := &scripted{sends: []*discoverypb.DiscoveryResponse{
			{TypeUrl: resourceType, VersionInfo: "1", Nonce: "a"},
			{TypeUrl: other[0].GetTypeUrl(), VersionInfo: "8", Nonce: "x"},
			{TypeUrl: resourceType, VersionInfo: "2", Nonce: "b", Resources: other},
			{TypeUrl: resourceType, VersionInfo: "3", Nonce: "c"},
		}}
		c := new(Client)
		c.Use = func(ctx context.Context) error {
			_, _, err := c.Fetch(ctx, "")
			return err
		}
		if err := (&stream{Client: c, ads: ads}).run(t.Context()); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		want := "[ 1 a 1 b resource 0 is a type.googleapis.com/envoy.config.cluster...; it must be a " + resourceType + " 3 c]"
		if got := fmt.Sprint(ads.got); got != want {
			t.Errorf("the answers are\n%s\nwant\n%s", got, want)
		}
		data, tag, err := c.Fetch(t.Context(), "")
		same, again, e := c.Fetch(t.Context(), tag)
		if data == nil || err != nil || same != nil || again != tag || e != nil {
			t.Errorf("Fetch = %s, %v; with its tag %s, %v, want nothing new", data, err, same, e)
		}
	})
}
