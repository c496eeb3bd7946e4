package throttleaws_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle"
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
	orders, date := aws.String("orders"), aws.String("by-date")
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
		{"Query", &readInput{TableName: orders, ReturnConsumedCapacity: "NONE"}, "nothing", "orders read 60:60"},
		{"GetItem", &readInput{TableName: orders}, total(0), "orders read 1:1"},
		{"GetItem", &readInput{TableName: aws.String("other")}, total(1), "other read 1:2"},
		{"GetItem", &readInput{TableName: orders}, total(math.NaN()), "orders read 1:1"},
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

// same reports whether two lists have the same elements.
func same(a, b string) bool {
	of := func(s string) []string { return slices.Sorted(slices.Values(strings.Split(s, ", "))) }
	return slices.Equal(of(a), of(b))
}

// TestUnitsBlame: which scopes a refusal slows down.
func TestUnitsBlame(t *testing.T) {
	because := func(why ...string) error {
		e := throughput().(*tooFast)
		for i := 0; i < len(why); i += 2 {
			e.ThrottlingReasons = append(e.ThrottlingReasons, reason{aws.String(why[i]), aws.String("arn:aws:dynamodb:eu-west-1:1:table/" + why[i+1])})
		}
		return e
	}
	part := func(table string) transactItem { return transactItem{Update: &transactPart{&table}} }
	one := &unitsInput{TableName: aws.String("orders")}
	two := &manyInput{[]transactItem{part("orders"), part("carts"), {}}}
	batch := &batchInput{map[string][]int{"orders": {1, 2}, "carts": {3}}}
	undone := &batchUnitsSaid{
		ConsumedCapacity: []consumed{{TableName: aws.String("carts"), CapacityUnits: aws.Float64(1)}, {TableName: aws.String("orders"), CapacityUnits: aws.Float64(1)}},
		UnprocessedItems: map[string][]int{"orders": {2}},
	}
	for _, c := range []struct {
		name, op string
		in, out  any
		err      error
		want     string
	}{
		{"no reason", "PutItem", one, nil, because(), "orders write 2:2!"},
		{"the table", "PutItem", one, nil, because("TableWriteProvisionedThroughputExceeded", "orders"), "orders write 2:2!"},
		{"an index", "PutItem", one, nil, because("IndexWriteProvisionedThroughputExceeded", "orders/index/by-date"), "orders write 2:2, orders/by-date write 2:2!"},
		{"another table", "PutItem", one, nil, because("TableWriteProvisionedThroughputExceeded", "else"), "orders write 2:2!"},
		{"the account", "PutItem", one, nil, coded("RequestLimitExceeded"), "orders write 2:2, own!"},
		{"one part of a transaction", "TransactWriteItems", two, nil, transaction("None", "ThrottlingError", "None"), "orders write 4:4, carts write 4:4!"},
		{"more reasons than parts", "TransactWriteItems", two, nil, transaction("None", "None", "ThrottlingError", "ThrottlingError"), "orders write 4:4!, carts write 4:4!"},
		{"a lock", "TransactWriteItems", two, nil, coded("TransactionInProgressException"), "orders write 4:4, carts write 4:4"},
		{"a part of a batch", "BatchWriteItem", batch, undone, nil, "orders write 4:2!, carts write 2:2"},
		{"a failure", "PutItem", one, nil, coded("InternalServerError"), "orders write 2:2"},
	} {
		noted := costs{}
		s := unitsSDK(c.op, noted)
		s.serve = func(int, *smithyhttp.Request) (any, error) {
			if c.err == nil {
				return c.out, nil
			}
			return nil, answer(400, c.err)
		}
		_, _ = s.call(t.Context(), c.in)
		want, own := strings.CutSuffix(c.want, ", own!")
		if want += ", own 1:1"; own {
			want += "!"
		}
		if got := noted.take(); !same(got, want) {
			t.Errorf("%s: %s; want %s", c.name, got, want)
		}
	}
}

// TestUnitsOfAnIndexThatRefused: later calls are subject to its scope from the
// start.
func TestUnitsOfAnIndexThatRefused(t *testing.T) {
	noted := costs{}
	s := unitsSDK("UpdateItem", noted)
	s.serve = func(n int, _ *smithyhttp.Request) (any, error) {
		if n > 1 {
			return total(3), nil
		}
		e := throughput().(*tooFast)
		e.ThrottlingReasons = []reason{{aws.String("IndexWriteProvisionedThroughputExceeded"), aws.String("arn:aws:dynamodb:eu-west-1:1:table/orders/index/by-date")}}
		return nil, answer(400, e)
	}
	in := &unitsInput{TableName: aws.String("orders")}
	_, _ = s.call(t.Context(), in)
	noted.take()
	if _, err := s.call(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if got, want := noted.take(), "orders write 2:6, orders/by-date write 2:2, own 1:1"; got != want {
		t.Errorf("after a refusal of the index: %s; want %s", got, want)
	}
}

// TestUnitsPace: what a call consumed is what the next one waits for, and reads,
// writes and tables are apart.
func TestUnitsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
