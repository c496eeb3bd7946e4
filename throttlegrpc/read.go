package throttlegrpc

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/signal"
)

// pushback is the trailer by which a server says when to retry, in
// milliseconds, or that no client may (gRFC A6).
const pushback = "grpc-retry-pushback-ms"

// Classify reads the error of a gRPC call by its status, for a
// throttle.Throttle whose calls do not pass through a [Client]: set
// Throttle.Classify to it.
//
//   - RESOURCE_EXHAUSTED is Throttled; but a message larger than allowed, which
//     has the same code, is Served: a retry would be as large. So is a refusal by a
//     quota of a day or of 0, as Google names them in the details: no wait helps. And a stream that
//     was reset by ENHANCE_YOUR_CALM is Failed and Final, as the call may have
//     been executed.
//   - UNAVAILABLE is Throttled if there is a google.rpc.RetryInfo, and otherwise
//     Failed and Final: whether the call may be repeated is unknown here.
//   - CANCELLED and DEADLINE_EXCEEDED are Ignored.
//   - INTERNAL, UNKNOWN and DATA_LOSS are Ignored and Final: in an outage such
//     answers come between refusals, and if they counted as served, each refusal
//     would look like a limit that was reached.
//   - All else is Served: it was answered, and is not retried.
//
// After is the longest retry_delay of a RetryInfo, capped by signal.Plausible.
// An error that is not from gRPC is read by throttle.Classify.
func Classify(err error) pace.Report {
	st, ok := status.FromError(err)
	if r := throttle.Classify(err); !ok || r.Verdict != pace.Served {
		return r // it speaks for itself
	}
	r := report(st, nil)
	if wasReset(st) && r.Verdict == pace.Throttled {
		r.Verdict = pace.Failed
	}
	r.Final = r.Verdict == pace.Failed || r.Verdict == pace.Ignored && r.Final
	return r
}

// report classifies a status and the metadata beside it.
func report(st *status.Status, md metadata.MD) pace.Report {
	after, stated := retryInfo(st)
	r := pace.Report{Verdict: pace.Served}
	switch st.Code() {
	case codes.ResourceExhausted:
		if tooLarge(st.Message()) || byLastingQuota(st) {
			return r
		}
		r.Verdict = pace.Throttled
	case codes.Unavailable:
		r.Verdict = pace.Failed
		// A proxy that refuses by 429 arrives as UNAVAILABLE; Envoy adds why.
		if stated || len(md["x-envoy-ratelimited"]) > 0 {
			r.Verdict = pace.Throttled
		}
	case codes.Canceled, codes.DeadlineExceeded:
		return pace.Report{Verdict: pace.Ignored}
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return pace.Report{Verdict: pace.Ignored, Final: true}
	default:
		return r
	}
	wait, again := pushedBack(md[pushback])
	r.After, r.Final = max(after, wait), !again
	return r
}

// tooLarge recognises by its text the status of a message above a size limit,
// which no retry makes smaller. An answer that is too large has been computed: the
// call was executed.
func tooLarge(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(sizeTexts[:], func(words string) bool { return strings.Contains(text, words) })
}

// sizeTexts stand in the statuses of messages above a size limit.
var sizeTexts = [...]string{
	"larger than max",        // Go, C++, Python, Node
	"to a size larger than",  // Node, of a compressed message
	"exceeds maximum size",   // Java
	"larger than configured", // Connect, as are the next two
	"exceeds sendmaxbytes",
	"http.maxbytesreader limit",
	"exceeds the maximum configured message size", // .NET
}

// byLastingQuota reports whether a quota of a day, or one of 0, has refused: in the
// words of Google's services, which say so in an ErrorInfo or a QuotaFailure.
func byLastingQuota(st *status.Status) bool {
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if strings.HasPrefix(d.GetMetadata()["quota_unit"], "1/d/") || d.GetMetadata()["quota_limit_value"] == "0" {
				return true
			}
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				if strings.Contains(v.GetQuotaId(), "PerDay") {
					return true
				}
			}
		}
	}
	return false
}

// wasReset recognises by its text a status that no server has sent: grpc-go makes
// RESOURCE_EXHAUSTED of a stream reset by ENHANCE_YOUR_CALM, at whatever point of
// the call that comes.
func wasReset(st *status.Status) bool {
	return strings.Contains(st.Message(), "stream terminated by RST_STREAM")
}

// retryInfo returns the longest wait that the details of st ask for; one below
// zero is ignored. stated reports whether they ask for any.
func retryInfo(st *status.Status) (after time.Duration, stated bool) {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			asked := info.GetRetryDelay().AsDuration() // saturates
			wait := signal.Plausible(asked)
			after, stated = max(after, wait.V), stated || wait.OK && asked >= 0
		}
	}
	return after, stated
}

// pushedBack reads the values of the trailer: at most one, a whole number of 32
// bits. again reports whether a retry is allowed.
func pushedBack(values []string) (wait time.Duration, again bool) {
	if len(values) == 0 {
		return 0, true
	}
	ms, err := strconv.ParseInt(values[0], 10, 32)
	if len(values) > 1 || err != nil || ms < 0 {
		return 0, false
	}
	return signal.Plausible(time.Duration(ms) * time.Millisecond).V, true
}

// hints returns what the RateLimit fields among the metadata say, as a Server
// sends them; Envoy sends X-RateLimit.
func hints(header, trailer metadata.MD, now time.Time) pace.Hints {
	return signal.Read(200, func(name string) string {
		name = strings.ToLower(name)
		values := trailer[name]
		if len(values) == 0 {
			values = header[name]
		}
		return strings.Join(values, ", ")
	}, now).Report().Hints
}
