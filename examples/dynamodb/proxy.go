package main

import (
	"crypto/rand"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// capacity is what a table may write in a second, from some time on.
type capacity struct {
	from  time.Duration // since the start
	units int64         // of 1 KB written, a second
}

// table stands before the DynamoDB API and gives its writes a capacity, as
// provisioned throughput does: so many units a second, and what was not used
// lately is saved up. When auto scaling changes the capacity, what was saved
// stays.
type table struct {
	steps   []capacity
	took    time.Duration // what comes later is not counted
	credit  int64         // how many units are saved up at most, and at the start
	forward http.Handler

	mu     sync.Mutex // guards what follows
	start  time.Time  // of the first write
	latest time.Time  // write
	limit  limit.Limit
	state  limit.State
	counts map[string]*counts // by access key
}

// counts are of the writes of one process.
type counts struct{ Served, Throttled int64 }

// before is the table before a DynamoDB API.
func before(api *url.URL, took time.Duration, steps []capacity, credit int64) *table {
	forward := httputil.NewSingleHostReverseProxy(api)
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	return &table{steps: steps, took: took, credit: credit, forward: forward, counts: map[string]*counts{}}
}

const (
	mostItem = 1 << 20 // bytes read of a request
	refusal  = `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",` +
		`"message":"The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API.",` +
		`"ThrottlingReasons":[{"reason":"TableWriteProvisionedThroughputExceeded","resource":"arn:aws:dynamodb:us-east-1:000000000000:table/orders"}]}`
)

// ServeHTTP refuses a write that is over the capacity as DynamoDB does, and
// forwards all else.
func (t *table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if operation != "PutItem" {
		t.forward.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostItem))
	if err != nil {
		http.Error(w, "the item is larger than 1 MB", http.StatusRequestEntityTooLarge)
		return
	}
	units := int64(len(body)+1023) / 1024
	if t.write(time.Now(), accessKey(r), units) {
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		t.forward.ServeHTTP(w, r)
		return
	}
	writeRefusal(w)
}

// writeRefusal answers as DynamoDB does.
func writeRefusal(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/x-amz-json-1.0")
	h.Set("X-Amzn-Requestid", rand.Text())
	h.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(refusal))), 10))
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, refusal) // a client that is gone needs no answer
}

// write reports whether units may be written now, and counts it.
func (t *table) write(now time.Time, who string, units int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start.IsZero() {
		t.start = now
	}
	if now.Before(t.latest) { // requests get the lock in no order
		now = t.latest
	}
	t.latest = now
	since := now.Sub(t.start)
	next := t.limitAt(since)
	if next != t.limit && t.limit != (limit.Limit{}) {
		t.state = limit.Change(t.state, now, t.limit, next)
	}
	t.limit = next
	var d limit.Decision
	t.state, d = limit.Take(t.state, now, limit.Ask{Limit: t.limit, N: units})
	c := t.counts[who]
	if c == nil {
		c = new(counts)
		t.counts[who] = c
	}
	switch {
	case since > t.took:
	case d.OK:
		c.Served += units
	default:
		c.Throttled += units
	}
	return d.OK
}

func (t *table) limitAt(since time.Duration) limit.Limit {
	units := t.steps[0].units
	for _, s := range t.steps {
		if since >= s.from {
			units = s.units
		}
	}
	return limit.Limit{Kind: limit.TokenBucket, Count: units, Period: time.Second, Burst: t.credit}
}

// available is how many units could be written.
func (t *table) available() float64 {
	sum := float64(t.credit)
	for i, s := range t.steps {
		until := t.took
		if i+1 < len(t.steps) {
			until = t.steps[i+1].from
		}
		sum += float64(s.units) * (until - s.from).Seconds()
	}
	return sum
}

// tally is what became of the writes of each process, and the share of what could
// be written that was.
func (t *table) tally() (all []counts, used float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var served int64
	for _, c := range t.counts {
		all = append(all, *c)
		served += c.Served
	}
	return all, float64(served) / t.available()
}

// accessKey says which process has signed a request.
func accessKey(r *http.Request) string {
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	who, _, _ := strings.Cut(credential, "/")
	return who
}
