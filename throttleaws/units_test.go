package throttleaws_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/internal/bubble"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

// These are shaped like the inputs and answers of the SDK's DynamoDB client.
type (
	returnConsumed string
	readInput      struct {
		TableName, IndexName   *string
		ConsistentRead         *bool
		ReturnConsumedCapacity returnConsumed
	}
	unitsInput struct {
		TableName              *string
		Item                   attributes
		ReturnConsumedCapacity returnConsumed
	}
	unitsOutput struct {
		ConsumedCapacity *consumed
		UnprocessedItems map[string][]int
	}
	consumed struct {
		TableName                                            *string
		CapacityUnits, ReadCapacityUnits, WriteCapacityUnits *float64
		Table                                                *capacity
		GlobalSecondaryIndexes, LocalSecondaryIndexes        map[string]capacity
	}
	capacity struct{ CapacityUnits *float64 }

	manyInput      struct{ TransactItems []transactItem }
	transactItem   struct{ Put, Update *transactPart }
	transactPart   struct{ TableName *string }
	batchUnitsSaid struct {
		ConsumedCapacity []consumed
		UnprocessedItems map[string][]int
	}
)

// total says that so many units were consumed.
func total(units float64) *unitsOutput {
	return &unitsOutput{ConsumedCapacity: &consumed{TableName: aws.String("orders"), CapacityUnits: &units}}
}

// costs notes what calls cost in each scope, as estimated and in the end, and
// which scopes refused.
type costs map[string]string

type scope struct {
	name string
	of   costs
}

func (scope) Wait(time.Time, pace.Request) time.Duration { return 0 }
func (scope) Start(time.Time, pace.Request)              {}
func (s scope) Observe(_ time.Time, o pace.Outcome) time.Duration {
	end := ""
	if o.Verdict == pace.Throttled {
		end = "!"
	}
	s.of[s.name] += fmt.Sprintf(" %d:%d%s", o.Request.Cost, o.Cost, end)
	return 0
}

func (c costs) take() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		lines = append(lines, name+c[name])
	}
	clear(c)
	return strings.Join(lines, ", ")
}

// unitsSDK is a client of which the costs are noted, with one try a call. own
// notes whether the Throttle's own limit refused.
func unitsSDK(op string, noted costs) *sdk {
	g := &throttleaws.Gates{Units: true, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
		return &throttle.Throttle{
			Control: scope{"own", noted}, Tries: -1, Retries: -1,
			NewScope: func(name string) pace.Controller { return scope{name, noted} },
		}
	}}}
	return &sdk{gates: g, retryer: retry.NewStandard(), op: op}
}

// TestUnitsOfOneTable: what one call after the other costs.
func TestUnitsOfOneTable(t *testing.T) {
	noted := costs{}
	s := unitsSDK("Query", noted)
	units := func(table float64, global ...float64) *unitsOutput {
		o := total(table)
		o.ConsumedCapacity.Table = &capacity{&table}
		o.ConsumedCapacity.GlobalSecondaryIndexes = map[string]capacity{}
		for _, g := range global {
			o.ConsumedCapacity.GlobalSecondaryIndexes["by-date"] = capacity{&g}
		}
		return o
	}
	orders, date, kind := aws.String("orders"), aws.String("by-date"), aws.String("by-kind")
	local := total(3)
	local.ConsumedCapacity.Table = &capacity{aws.Float64(0)}
	local.ConsumedCapacity.LocalSecondaryIndexes = map[string]capacity{*kind: {aws.Float64(3)}}
	item := func(size int) attributes { return attributes{"x": &attributeValueMemberS{strings.Repeat("x", size-1)}} }
	arn := aws.String("arn:aws:dynamodb:eu-west-1:1:table/orders")
	for i, c := range []struct {
		op   string
		in   any
		out  any
		want string
	}{
		{"Query", &readInput{TableName: orders}, total(40), "orders read 1:80"},
		{"Query", &readInput{TableName: arn}, total(20), "orders read 80:40"},
		{"Query", &readInput{TableName: orders, ConsistentRead: aws.Bool(true)}, total(60), "orders read 120:120"},
		{"Query", &readInput{TableName: orders, IndexName: date}, total(0.5), "orders/by-date read 1:1"},
		{"Query", &readInput{TableName: orders, IndexName: aws.String("by-size"), ConsistentRead: aws.Bool(true)}, total(3), "orders read 2:6"},
		{"Query", &readInput{TableName: orders, ReturnConsumedCapacity: "NONE"}, "nothing", "orders read 60:60"},
		{"GetItem", &readInput{TableName: orders}, total(0), "orders read 1:1"},
		{"GetItem", &readInput{TableName: aws.String("other")}, total(1), "other read 1:2"},
		{"GetItem", &readInput{TableName: orders}, total(math.NaN()), "orders read 1:1"},
		{"GetItem", &readInput{TableName: orders}, total(4.5), "orders read 1:9"},
		{"GetItem", &readInput{TableName: orders}, "nothing", "orders read 3:3"},
		{"Scan", &readInput{TableName: orders, IndexName: kind}, local, "orders/by-kind read 1:1, orders read 6:6"},
		{"Scan", &readInput{TableName: orders, IndexName: kind}, local, "orders read 6:6"},
		{"Scan", &readInput{TableName: orders, IndexName: kind, ConsistentRead: aws.Bool(true)}, local, "orders read 12:6"},
		{"DeleteItem", &unitsInput{TableName: orders}, total(math.Inf(1)), "orders write 2:2000000"},
		{"PutItem", &unitsInput{TableName: orders, Item: item(1024)}, total(1), "orders write 2:2"},
		{"PutItem", &unitsInput{TableName: orders, Item: item(1025)}, total(2), "orders write 4:4"},
		{"PutItem", &unitsInput{TableName: orders, Item: item(1024)}, units(1, 2), "orders write 2:2, orders/by-date write 4:4"},
		{"PutItem", &unitsInput{TableName: orders, Item: item(2048)}, units(2), "orders write 4:4, orders/by-date write 8:8"},
		{"PutItem", &unitsInput{TableName: orders, Item: item(2048)}, units(2), "orders write 4:4, orders/by-date write 4:4"},
	} {
		s.op = c.op
		s.serve = func(int, *smithyhttp.Request) (any, error) { return c.out, nil }
		if _, err := s.call(t.Context(), c.in); err != nil {
			t.Fatal(err)
		}
		if got, want := noted.take(), c.want+", own 1:1"; !same(got, want) {
			t.Errorf("%d, %s: %s; want %s", i, c.op, got, want)
		}
	}
}

// TestUnitsOfTransactions: a write that is sent again reads, and an answer that
// says so is billed in both scopes.
func TestUnitsOfTransactions(t *testing.T) {
	noted := costs{}
	s := unitsSDK("TransactWriteItems", noted)
	orders := aws.String("orders")
	said := consumed{TableName: orders, CapacityUnits: aws.Float64(6), ReadCapacityUnits: aws.Float64(2), WriteCapacityUnits: aws.Float64(4)}
	s.serve = func(int, *smithyhttp.Request) (any, error) {
		return &batchUnitsSaid{ConsumedCapacity: []consumed{said}}, nil
	}
	for _, want := range []string{"orders read 4:4, orders write 4:8, own 1:1", "orders read 4:4, orders write 8:8, own 1:1"} {
		if _, err := s.call(t.Context(), &manyInput{[]transactItem{{Update: &transactPart{orders}}}}); err != nil {
			t.Fatal(err)
		}
		if got := noted.take(); got != want {
			t.Errorf("a transaction: %s; want %s", got, want)
		}
	}
}

// TestUnitsOptions: the scopes that the caller named stay, and those of tables
// are not for a Throttle underneath.
func TestUnitsOptions(t *testing.T) {
	noted := costs{}
	s := unitsSDK("PutItem", noted)
	var below throttle.CallOptions
	s.end = middleware.HandlerFunc(func(ctx context.Context, _ any) (any, middleware.Metadata, error) {
		below = throttle.OptionsOf(ctx)
		return total(1), middleware.Metadata{}, nil
	})
	mine := throttle.CallOptions{Needs: []throttle.Need{{Scope: "mine", Cost: 3}}}
	if _, err := s.call(throttle.WithOptions(t.Context(), mine), &unitsInput{TableName: aws.String("orders")}); err != nil {
		t.Fatal(err)
	}
	if got, want := noted.take(), "mine 3:3, orders write 2:2, own 1:1"; got != want {
		t.Errorf("a caller that names a scope: %s; want %s", got, want)
	}
	if !slices.Equal(below.Needs, mine.Needs) {
		t.Errorf("underneath: %+v, want only the caller's", below.Needs)
	}
}

// same reports whether two lists have the same elements.
func same(a, b string) bool {
	of := func(s string) []string { return slices.Sorted(slices.Values(strings.Split(s, ", "))) }
	return slices.Equal(of(a), of(b))
}

// TestUnitsPace: what a call consumed is what the next one waits for, and reads,
// writes and tables are apart.
func TestUnitsPace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &throttleaws.Gates{Units: true, Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{NewScope: func(string) pace.Controller { return &pace.Fixed{Rate: 10 * throttleaws.PerUnit} }}
		}}}
		s := &sdk{gates: g, retryer: retry.NewStandard(), op: "Query"}
		s.serve = func(int, *smithyhttp.Request) (any, error) { return total(50), nil }
		for i, c := range []struct {
			op, table string
			want      time.Duration
		}{
			{"Query", "orders", 0},
			{"PutItem", "orders", 0},
			{"Query", "carts", 0},
			{"Query", "orders", 5 * time.Second},
			{"Query", "orders", 5 * time.Second},
		} {
			start := time.Now()
			s.op = c.op
			if _, err := s.call(t.Context(), &unitsInput{TableName: &c.table}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != c.want {
				t.Errorf("%d, %s of %s: %v, want %v: 50 units at 10 a second", i, c.op, c.table, took, c.want)
			}
		}
	})
}

// TestUnitsInput: the input that is sent asks for the capacity consumed, and
// that of the caller does not change.
func TestUnitsInput(t *testing.T) {
	table := "orders"
	for _, c := range []struct {
		units    bool
		op       string
		in, want any
	}{
		{true, "PutItem", &unitsInput{TableName: &table}, &unitsInput{TableName: &table, ReturnConsumedCapacity: "TOTAL"}},
		{true, "PutItem", &unitsInput{TableName: &table, ReturnConsumedCapacity: "NONE"}, nil},
		{true, "PutItem", &putInput{&table}, nil},
		{true, "DescribeTable", &unitsInput{TableName: &table}, nil},
		{false, "PutItem", &unitsInput{TableName: &table}, nil},
	} {
		s := &sdk{gates: &throttleaws.Gates{Units: c.units}, retryer: retry.NewStandard(), op: c.op}
		s.serve = func(int, *smithyhttp.Request) (any, error) { return "done", nil }
		before := fmt.Sprintf("%+v", c.in)
		if _, err := s.call(t.Context(), c.in); err != nil {
			t.Fatal(err)
		}
		if c.want == nil {
			c.want = c.in
		}
		if got, want := fmt.Sprintf("%+v", s.sent), fmt.Sprintf("%+v", c.want); got != want || fmt.Sprintf("%+v", c.in) != before {
			t.Errorf("Units %t, %s of %s: sent %s, want %s", c.units, c.op, before, got, want)
		}
	}
}

// TestUnitsName: which calls share a Throttle.
func TestUnitsName(t *testing.T) {
	for _, c := range []struct{ op, want string }{
		{"PutItem", "DynamoDB"}, {"TransactWriteItems", "DynamoDB"}, {"DescribeTable", "DynamoDB DescribeTable"},
	} {
		g := &throttleaws.Gates{Units: true, Tries: -1}
		s := &sdk{gates: g, retryer: retry.NewStandard(), op: c.op}
		s.serve = func(int, *smithyhttp.Request) (any, error) { return nil, answer(400, throughput()) }
		_, err := s.call(t.Context(), &unitsInput{TableName: aws.String("orders")})
		var api smithy.APIError
		if e := failure(t, err); e.Name != c.want || !errors.As(err, &api) {
			t.Errorf("%s: name %q, want %q", c.op, e.Name, c.want)
		}
	}
}
