package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/throttleaws"
)

// TestMain is also the process that writes: see start.
func TestMain(m *testing.M) {
	if wrote(context.Background()) {
		return
	}
	os.Exit(m.Run())
}

// realAPI is a DynamoDB API with the table. Without one the test fails where
// THROTTLE_REQUIRE=1, and else is skipped.
func realAPI(t *testing.T) *url.URL {
	t.Helper()
	api, stop, err := startAPI(context.Background())
	if errors.Is(err, errNoAPI) && os.Getenv("THROTTLE_REQUIRE") != "1" {
		t.Skip("NO DYNAMODB API: throttleaws is NOT tested against a real one:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	c := connect(t, api.String(), new(throttleaws.Gates), nil)
	if err := create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return api
}

// connect makes a client, with gates unless nil, and its own connections.
func connect(t *testing.T, endpoint string, gates *throttleaws.Gates, retryer aws.Retryer) *dynamodb.Client {
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	o := dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "secret", ""),
		HTTPClient:   &http.Client{Transport: transport},
		Retryer:      retryer,
	}
	if gates != nil {
		o.APIOptions = append(o.APIOptions, gates.Add)
	}
	return dynamodb.New(o)
}

// refuse puts a proxy before the API that refuses the n-th PutItem as refused
// tells; requests counts all.
func refuse(t *testing.T, api *url.URL, refused func(n int64) bool) (endpoint string, requests *atomic.Int64) {
	forward := before(api, time.Hour, []capacity{{0, 1e6}}, 1e6)
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutItem") {
			forward.ServeHTTP(w, r)
			return
		}
		if refused(requests.Add(1)) {
			writeRefusal(w)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// TestPutAndGet: what was written through refusals is there, and the SDK retries
// nothing by itself.
func TestPutAndGet(t *testing.T) {
	endpoint, requests := refuse(t, realAPI(t), func(n int64) bool { return n == 2 })
	var ends []throttle.Event
	g := &throttleaws.Gates{Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
		return &throttle.Throttle{OnEvent: func(e throttle.Event) {
			if e.Kind == throttle.Ends {
				ends = append(ends, e)
			}
		}}
	}}}
	c := connect(t, endpoint, g, retry.AddWithMaxAttempts(retry.NewStandard(), 10))
	for _, id := range []string{"a", "b", "c"} {
		if err := put(t.Context(), c, id); err != nil {
			t.Fatalf("put %s: %v", id, err)
		}
		got, err := c.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: aws.String(tableName), ConsistentRead: aws.Bool(true),
			Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: id}},
		})
		if err != nil || len(got.Item) != 1 {
			t.Errorf("get %s: %v, %v; want the item", id, got, err)
		}
	}
	if requests.Load() != 4 || len(ends) != 7 {
		t.Errorf("3 puts, one refused once, and 3 gets: %d requests to put, %d tries in all; want 4, 7", requests.Load(), len(ends))
	}
}

// TestTypedError: what the SDK makes of a refusal is found in the error.
func TestTypedError(t *testing.T) {
	endpoint, requests := refuse(t, realAPI(t), func(int64) bool { return true })
	g := &throttleaws.Gates{Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return &throttle.Throttle{Tries: 2} }}}
	err := put(t.Context(), connect(t, endpoint, g, nil), "a")
	var typed *types.ProvisionedThroughputExceededException
	var e *throttleaws.Error
	if !errors.As(err, &typed) || !errors.As(err, &e) || !errors.Is(err, throttle.ErrTries) {
		t.Fatalf("put: %v; want the type of the SDK, ours, and no tries left", err)
	}
	if e.MayHaveRun || e.Tries != 2 || e.Name != "DynamoDB us-east-1 orders write" || requests.Load() != 2 {
		t.Errorf("put: %+v after %d requests; want not executed, 2 tries, of the writes of orders", e, requests.Load())
	}
	if len(e.Reasons) != 1 || e.Reasons[0].Reason != "TableWriteProvisionedThroughputExceeded" || !strings.HasSuffix(e.Reasons[0].Resource, "table/orders") {
		t.Errorf("put: reasons %+v, want that of the table's writes", e.Reasons)
	}
}

// TestAnswersThatAreNoRefusals come back at once.
func TestAnswersThatAreNoRefusals(t *testing.T) {
	c := connect(t, realAPI(t).String(), new(throttleaws.Gates), nil)
	var e *throttleaws.Error
	_, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("nothing"), Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "a"}}})
	var missing *types.ResourceNotFoundException
	if !errors.As(err, &missing) || !errors.As(err, &e) || e.Tries != 1 || e.MayHaveRun {
		t.Errorf("put into no table: %v, %+v; want not found, 1 try, not executed", err, e)
	}
	for i, want := range []bool{true, false} {
		_, err = c.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String(tableName), ConditionExpression: aws.String("attribute_not_exists(id)"),
			Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "a"}},
		})
		var there *types.ConditionalCheckFailedException
		if ok := err == nil; ok != want || !ok && !errors.As(err, &there) {
			t.Errorf("put %d of what must not be there: %v, want served: %t", i+1, err, want)
		}
	}
}

// TestCancelStorm: puts that are cancelled at any moment leave nothing behind.
func TestCancelStorm(t *testing.T) {
	endpoint, _ := refuse(t, realAPI(t), func(n int64) bool { return n%4 == 0 })
	gate := new(throttle.Throttle)
	c := connect(t, endpoint, &throttleaws.Gates{Throttles: &throttle.Group{New: func(string) *throttle.Throttle { return gate }}}, nil)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
			defer cancel()
			if err := put(ctx, c, "storm"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("put %d: %v, want it done or too late", i, err)
			}
		})
	}
	all.Wait()
	if gate.InFlight() != 0 || gate.Waiting() != 0 {
		t.Errorf("after all: %d in flight, %d waiting; want none", gate.InFlight(), gate.Waiting())
	}
}
