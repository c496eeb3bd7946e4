package throttleaws

import (
	"reflect"
	"strings"
)

// PerUnit is the cost of one capacity unit of DynamoDB in the scopes of
// [Gates.Units]: an eventually consistent read of 4 KB, which takes half a unit,
// costs 1.
const PerUnit = 2

const (
	writeUnit = 1 << 10 // bytes that one unit writes; a unit reads 4 KB
	twice     = 2       // what a transaction takes, of what the same takes outside
)

// ask is what a call is about to take of the capacity of one table. Costs are in
// half units.
type ask struct {
	table, index string // the index is empty, or that of a Query or Scan
	scope        string // that of the table, or of the index
	key          string // calls with one key are expected to cost alike
	known        int64  // what it costs by what is known of it: hardly less
	scale        int64  // a cost that what was learnt is relative to
}

// uses is that of an operation: "read", "write", or empty if it takes nothing of
// the capacity of tables.
func uses(c Call) string {
	if c.Service != "DynamoDB" {
		return ""
	}
	return dynamoUses[c.Operation]
}

// asksOf returns what a call takes of each table; nil: nothing of any.
func asksOf(c Call) []ask {
	use := uses(c)
	var all asks
	switch {
	case use == "":
		return nil
	case field(c.Input, "RequestItems").Kind() == reflect.Map:
		all.batch(field(c.Input, "RequestItems"))
	case field(c.Input, "TransactItems").Kind() == reflect.Slice:
		all.transaction(field(c.Input, "TransactItems"))
	case c.Table() != "":
		known, scale := takes(c.Input)
		all.add(c.Table(), known, scale)
		all[0].index = text(field(c.Input, "IndexName"))
	}
	for i := range all {
		a := &all[i]
		a.key = c.Operation + " " + a.table + "/" + a.index
		if isTrue(field(c.Input, "ConsistentRead")) {
			a.index = "" // it is a local one then, which has the capacity of the table
		}
		a.scope = scopeName(a.table, a.index, use)
	}
	return all
}

// scopeName is the name of the scope of a table or index, and one use of it.
func scopeName(table, index, use string) string {
	if index != "" {
		table += "/" + index
	}
	return table + " " + use
}

type asks []ask

// add adds to what is taken of a table.
func (all *asks) add(table string, known, scale int64) {
	for i := range *all {
		if a := &(*all)[i]; a.table == table {
			a.known, a.scale = a.known+known, a.scale+scale
			return
		}
	}
	*all = append(*all, ask{table: table, known: known, scale: scale})
}

// batch adds the RequestItems of BatchGetItem or BatchWriteItem.
func (all *asks) batch(items reflect.Value) {
	for tables := items.MapRange(); tables.Next(); {
		table, of := tableOf(tables.Key().String()), tables.Value()
		if keys := field(of.Interface(), "Keys"); keys.Kind() == reflect.Slice {
			known, scale := takes(of.Interface())
			n := int64(max(keys.Len(), 1))
			all.add(table, n*known, n*scale)
		}
		if of.Kind() != reflect.Slice {
			continue
		}
		for i := range of.Len() {
			request := of.Index(i).Interface()
			known, scale := takes(request)
			if put := field(request, "PutRequest"); put.Kind() == reflect.Pointer && !put.IsNil() {
				known, scale = takes(put.Interface())
			}
			all.add(table, known, scale)
		}
	}
}

// transaction adds TransactItems.
func (all *asks) transaction(items reflect.Value) {
	for i := range items.Len() {
		if part, ok := partOf(items.Index(i)); ok {
			known, scale := takes(part)
			all.add(tableOf(text(field(part, "TableName"))), twice*known, twice*scale)
		}
	}
}

// partOf returns the Put, Update, Delete, ConditionCheck or Get that one of the
// TransactItems is.
func partOf(item reflect.Value) (part any, ok bool) {
	if item.Kind() != reflect.Struct {
		return nil, false
	}
	for i := range item.NumField() {
		if f := item.Field(i); f.Kind() == reflect.Pointer && f.CanInterface() && f.Elem().Kind() == reflect.Struct {
			return f.Interface(), true
		}
	}
	return nil, false
}

// takes returns the cost of one operation on one item, by its shape: that of its
// input, or of its part of a batch or transaction. What is found there is not
// known: reads count 4 KB, deletes 1 KB, and updates what they bring.
func takes(v any) (known, scale int64) {
	if item := field(v, "Item"); lenOf(item) > 0 {
		known = writes(sizeOf(item))
		return known, known
	}
	if field(v, "UpdateExpression").IsValid() {
		size := sizeOf(field(v, "Key")) + sizeOf(field(v, "ExpressionAttributeValues")) + sizeOf(field(v, "AttributeUpdates"))
		return writes(size), PerUnit
	}
	if consistent := field(v, "ConsistentRead"); consistent.IsValid() && !isTrue(consistent) {
		return 1, 1
	}
	return PerUnit, PerUnit
}

// writes is the cost of writing so many bytes.
func writes(size int) int64 {
	return PerUnit * int64(max((min(size, mostSize)+writeUnit-1)/writeUnit, 1))
}

// isTrue reports whether v is a true *bool.
func isTrue(v reflect.Value) bool {
	return v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Bool && v.Elem().Bool()
}

// tableOf returns the name of a table, which may come as an ARN.
func tableOf(name string) string {
	if _, table, ok := strings.Cut(name, ":table/"); ok {
		return table
	}
	return name
}

// asking returns input with ReturnConsumedCapacity set, in a copy, unless it has
// that already or has no such field: the caller's own may be in use elsewhere.
func asking(input any) any {
	in := reflect.ValueOf(input)
	if f := field(input, "ReturnConsumedCapacity"); in.Kind() != reflect.Pointer || f.Kind() != reflect.String || f.Len() > 0 {
		return input
	}
	c := reflect.New(in.Type().Elem())
	c.Elem().Set(in.Elem())
	c.Elem().FieldByName("ReturnConsumedCapacity").SetString("TOTAL")
	return c.Interface()
}
