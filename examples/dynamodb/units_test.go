package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

// costs notes, for each scope, what calls were estimated to cost and what they
// did.
type costs struct {
	mu  sync.Mutex // guards what follows
	all map[string]string
}

// scope is the pace of one scope: none.
type scope struct {
	name string
	of   *costs
}

func (scope) Wait(time.Time, pace.Request) time.Duration { return 0 }
func (scope) Start(time.Time, pace.Request)              {}
func (s scope) Observe(_ time.Time, o pace.Outcome) time.Duration {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.all[s.name] += fmt.Sprintf("%d:%d ", o.Request.Cost, o.Cost)
	return 0
}

// take returns what was noted since the last time: "orders write 4:2" is a cost
// estimated to be 4 half units that was 2.
func (c *costs) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		lines = append(lines, name+" "+strings.TrimSpace(c.all[name]))
	}
	clear(c.all)
	return strings.Join(lines, ", ")
}

func (c *costs) gates() *throttleaws.Gates {
	c.all = map[string]string{}
	return &throttleaws.Gates{Units: true, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
		return &throttle.Throttle{NewScope: func(name string) pace.Controller { return scope{name, c} }}
	}}}
}

// createIndexed makes a table by id and n, with an index by date.
func createIndexed(t *testing.T, c *dynamodb.Client, name string) {
	t.Helper()
	s := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}
	}
	key := func(name string, kind types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: kind}
	}
	all := &types.Projection{ProjectionType: types.ProjectionTypeAll}
	_, err := c.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{s("id"), s("n"), s("date"), s("kind")},
		KeySchema:            []types.KeySchemaElement{key("id", types.KeyTypeHash), key("n", types.KeyTypeRange)},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			{IndexName: aws.String("by-date"), KeySchema: []types.KeySchemaElement{key("date", types.KeyTypeHash)}, Projection: all},
		},
		LocalSecondaryIndexes: []types.LocalSecondaryIndex{
			{IndexName: aws.String("by-kind"), KeySchema: []types.KeySchemaElement{key("id", types.KeyTypeHash), key("kind", types.KeyTypeRange)}, Projection: all},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

type attributes = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// keyOf is the key of an item.
func keyOf(n string) attributes { return attributes{"id": str("a"), "n": str(n)} }

// itemOf is an item of so many bytes.
func itemOf(n string, size int) attributes {
	item := keyOf(n)
	item["x"] = str(strings.Repeat("x", size-len("idan"+n+"x")))
	return item
}

// TestUnits: what calls of a real DynamoDB API cost, in half units, as estimated
// and as consumed, the first time and when that has been learnt.
func TestUnits(t *testing.T) {
	var noted costs
	c := connect(t, localAPI(t).String(), noted.gates(), nil)
	for _, name := range []string{"orders", "carts"} {
		createIndexed(t, c, name)
	}
	d := db{t.Context(), c}
	for _, call := range slices.Concat(d.writes(), d.reads(), d.several()) {
		for _, want := range []string{call.first, call.then} {
			noted.take()
			if err := call.do(); err != nil {
				t.Fatalf("%s: %v", call.name, err)
			}
			if got := noted.take(); got != want {
				t.Errorf("%s: %s; want %s", call.name, got, want)
			}
		}
	}
}

// TestSizes: where one byte more costs another unit, whatever an item is made of.
func TestSizes(t *testing.T) {
	api := localAPI(t).String()
	createIndexed(t, connect(t, api, nil, nil), "orders")
	number := func(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
	keys := 0
	for _, v := range []types.AttributeValue{
		str("žluťoučký"),
		&types.AttributeValueMemberB{Value: make([]byte, 77)},
		&types.AttributeValueMemberBOOL{Value: true},
		&types.AttributeValueMemberNULL{Value: true},
		&types.AttributeValueMemberSS{Value: []string{"a", "bc"}},
		&types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}},
		&types.AttributeValueMemberL{Value: []types.AttributeValue{str("a"), str("bc"), &types.AttributeValueMemberL{}}},
		&types.AttributeValueMemberM{Value: attributes{"a": str("b"), "cd": &types.AttributeValueMemberM{Value: attributes{"e": str("f")}}}},
		number("123"), number("0"), number("1200000"), number("12000000"), number("-5"), number("-120"), number("38.00001e-7"), number("380.0001E6"), number("0.012"),
		&types.AttributeValueMemberNS{Value: []string{"1", "123.45"}},
	} {
		var noted costs
		d := db{t.Context(), connect(t, api, noted.gates(), nil)}
		put := func(size int) string {
			noted.take()
			keys++ // as what is replaced counts too
			item := itemOf(fmt.Sprintf("%06d", keys), size)
			item["é"] = v
			if err := d.put(item); err != nil {
				t.Fatal(err)
			}
			return noted.take()
		}
		over := sort.Search(1024, func(size int) bool { return strings.HasSuffix(put(max(size, 100)), ":4") })
		t.Logf("%T: %d bytes", v, 1025-over)
		for size, want := range map[int]string{over - 1: "orders write 2:2", over: "orders write 4:4"} {
			if got := put(size); got != want {
				t.Errorf("%T %v, and %d bytes more: %s; want %s", v, v, size, got, want)
			}
		}
	}
}

// TestUnitsRefused: a refusal stops the writes of one table, and nothing else.
func TestUnitsRefused(t *testing.T) {
	endpoint, requests := refuse(t, localAPI(t), func(n int64) bool { return n <= 2 })
	g := &throttleaws.Gates{Units: true, Tries: 2}
	c := connect(t, endpoint, g, nil)
	for _, name := range []string{"orders", "carts"} {
		createIndexed(t, c, name)
	}
	err := db{t.Context(), c}.put(itemOf("1", 100))
	var e *throttleaws.Error
	if !errors.As(err, &e) || e.Name != "DynamoDB us-east-1" || requests.Load() != 2 {
		t.Errorf("put, refused: %v after %d requests; want it of DynamoDB us-east-1, 2", err, requests.Load())
	}
	ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{MaxWait: time.Millisecond})
	if _, err := c.PutItem(ctx, &dynamodb.PutItemInput{TableName: carts, Item: itemOf("1", 100)}); err != nil {
		t.Errorf("put into another table: %v, want it done at once", err)
	}
	if _, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: orders, Key: keyOf("1")}); err != nil {
		t.Errorf("get: %v, want it done at once", err)
	}
	var late *throttle.Error
	if err := (db{ctx, c}).put(itemOf("1", 100)); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &late) || late.Scope != "orders write" {
		t.Errorf("put: %v, want that the wait for orders write is too long", err)
	}
}
