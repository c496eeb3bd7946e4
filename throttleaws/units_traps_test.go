package throttleaws_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/throttle-go/throttle/throttleaws"
)

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

// TestUnitsAreBounded: tables beyond a thousand replace others.
func TestUnitsAreBounded(t *testing.T) {
	s := unitsSDK("PutItem", costs{})
	s.serve = func(int, *smithyhttp.Request) (any, error) { return total(1), nil }
	for i := range 1100 {
		table := fmt.Sprint("orders", i)
		s.serve = func(int, *smithyhttp.Request) (any, error) {
			return &unitsOutput{ConsumedCapacity: &consumed{CapacityUnits: aws.Float64(1)}}, nil
		}
		if _, err := s.call(t.Context(), &unitsInput{TableName: &table}); err != nil {
			t.Fatal(err)
		}
	}
	if got := throttleaws.Remembered(s.gates); got != 1000 {
		t.Errorf("after calls of 1100 tables, %d are remembered, want 1000", got)
	}
}

// TestUnitsOfOddShapes: what no version of the SDK sends or answers is survived.
func TestUnitsOfOddShapes(t *testing.T) {
	one := 1
	for _, in := range []any{
		nil, 7, "orders", &one, (*unitsInput)(nil),
		struct{}{},
		unitsInput{TableName: aws.String("orders")},
		&struct{ RequestItems map[int]int }{map[int]int{1: 2}},
		&struct{ RequestItems map[string]any }{map[string]any{"orders": nil, "carts": []any{nil, 7}}},
		&struct{ TransactItems []any }{[]any{nil, 7}},
		&struct{ TransactItems []struct{ put *int } }{[]struct{ put *int }{{&one}}},
		&struct{ TableName, Item string }{"orders", "x"},
	} {
		for _, out := range []any{
			nil, 7,
			struct{ ConsumedCapacity int }{7},
			struct{ ConsumedCapacity []any }{[]any{nil, 7, "orders"}},
			struct{ ConsumedCapacity *int }{&one},
			struct{ ConsumedCapacity, UnprocessedItems map[int]int }{UnprocessedItems: map[int]int{1: 2}},
			&struct{ ConsumedCapacity struct{ Table int } }{}, &unitsOutput{ConsumedCapacity: new(consumed)},
		} {
			for _, op := range []string{"PutItem", "BatchGetItem", "TransactWriteItems", "Query"} {
				s := unitsSDK(op, costs{})
				s.serve = func(int, *smithyhttp.Request) (any, error) { return out, nil }
				if _, err := s.call(t.Context(), in); err != nil {
					t.Errorf("%s of %#v, answered %#v: %v", op, in, out, err)
				}
			}
		}
	}
}
