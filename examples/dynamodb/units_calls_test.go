package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// db makes calls of a DynamoDB API.
type db struct {
	ctx context.Context
	*dynamodb.Client
}

// costed is a call, with what it costs the first time and the second.
type costed struct {
	name        string
	do          func() error
	first, then string
}

var orders, carts = aws.String("orders"), aws.String("carts")

func (d db) put(item attributes) error {
	_, err := d.PutItem(d.ctx, &dynamodb.PutItemInput{TableName: orders, Item: item})
	return err
}

// indexed is an item that is in both indexes.
func indexed(n, date string) attributes {
	item := itemOf(n, 1500)
	item["date"], item["kind"] = str(date), str("new")
	return item
}

func (d db) writes() []costed {
	detailed := func(n string) func() error {
		return func() error {
			_, err := d.PutItem(d.ctx, &dynamodb.PutItemInput{TableName: orders, Item: indexed(n, "today"), ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes})
			return err
		}
	}
	return []costed{
		{"put 1024 bytes", func() error { return d.put(itemOf("1", 1024)) }, "orders write 2:2", "orders write 2:2"},
		{"put 1025 bytes", func() error { return d.put(itemOf("2", 1025)) }, "orders write 4:4", "orders write 4:4"},
		{"put 9000 bytes", func() error { return d.put(itemOf("3", 9000)) }, "orders write 18:18", "orders write 18:18"},
		{"put a smaller one over it", func() error { return d.put(itemOf("3", 8900)) }, "orders write 18:18", "orders write 18:18"},
		{"put into the indexes, then what is there", func() error { return d.put(indexed("4", "today")) }, "orders write 4:12", "orders write 5:4"},
		{"put into the indexes, with the details", detailed("5"), "orders write 5:8, orders/by-date write 4:4", "orders write 5:4, orders/by-date write 4:4"},
		{"and once more", detailed("6"), "orders write 5:8, orders/by-date write 2:4", "orders write 5:4, orders/by-date write 3:3"},
		{"put, and ask for nothing", func() error {
			_, err := d.PutItem(d.ctx, &dynamodb.PutItemInput{TableName: orders, Item: itemOf("1", 1024), ReturnConsumedCapacity: types.ReturnConsumedCapacityNone})
			return err
		}, "orders write 3:3, orders/by-date write 1:1", "orders write 3:3, orders/by-date write 1:1"},
		{"update 9 KB", func() error {
			_, err := d.UpdateItem(d.ctx, &dynamodb.UpdateItemInput{
				TableName: orders, Key: keyOf("3"),
				UpdateExpression: aws.String("SET y = :y"), ExpressionAttributeValues: attributes{":y": str("y")},
			})
			return err
		}, "orders write 2:18", "orders write 18:18"},
	}
}

func (d db) reads() []costed {
	get := func(consistent bool) func() error {
		return func() error {
			_, err := d.GetItem(d.ctx, &dynamodb.GetItemInput{TableName: orders, Key: keyOf("3"), ConsistentRead: &consistent})
			return err
		}
	}
	query := func(index *string, key, value string, consistent bool, ask types.ReturnConsumedCapacity) func() error {
		return func() error {
			_, err := d.Query(d.ctx, &dynamodb.QueryInput{
				TableName: orders, IndexName: index, ConsistentRead: &consistent, ReturnConsumedCapacity: ask,
				KeyConditionExpression:    aws.String("#k = :v"),
				ExpressionAttributeNames:  map[string]string{"#k": key},
				ExpressionAttributeValues: attributes{":v": str(value)},
			})
			return err
		}
	}
	kinds := aws.String("by-kind")
	return []costed{
		{"get", get(false), "orders read 1:3", "orders read 3:3"},
		{"get, consistent", get(true), "orders read 6:6", "orders read 6:6"},
		{"query", query(nil, "id", "a", false, ""), "orders read 1:4", "orders read 4:4"},
		{"query a global index", query(aws.String("by-date"), "date", "today", false, ""), "orders/by-date read 1:2", "orders/by-date read 2:2"},
		{"query a local index, consistent", query(kinds, "id", "a", true, ""), "orders read 2:4", "orders read 4:4"},
		{"query a local index, with the details", query(kinds, "id", "a", false, types.ReturnConsumedCapacityIndexes), "orders read 2:2", "orders read 2:2"},
		{"scan", func() error {
			_, err := d.Scan(d.ctx, &dynamodb.ScanInput{TableName: orders})
			return err
		}, "orders read 1:4", "orders read 4:4"},
	}
}

// several are calls that take of more than one item or table.
func (d db) several() []costed {
	put := func(n string, size int) types.WriteRequest {
		return types.WriteRequest{PutRequest: &types.PutRequest{Item: itemOf(n, size)}}
	}
	return []costed{
		{"batch write", func() error {
			_, err := d.BatchWriteItem(d.ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
				"orders": {put("7", 3000), {DeleteRequest: &types.DeleteRequest{Key: keyOf("9")}}}, "carts": {put("1", 5000)},
			}})
			return err
		}, "carts write 10:10, orders write 8:10", "carts write 10:10, orders write 10:10"},
		{"batch get", func() error {
			_, err := d.BatchGetItem(d.ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
				"orders": {Keys: []attributes{keyOf("1"), keyOf("3")}}, "carts": {Keys: []attributes{keyOf("1")}, ConsistentRead: aws.Bool(true)},
			}})
			return err
		}, "carts read 2:4, orders read 2:4", "carts read 4:4, orders read 4:4"},
		{"transact write", func() error {
			_, err := d.TransactWriteItems(d.ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
				{Put: &types.Put{TableName: orders, Item: itemOf("8", 3000)}},
				{ConditionCheck: &types.ConditionCheck{TableName: carts, Key: keyOf("1"), ConditionExpression: aws.String("attribute_exists(id)")}},
				{Delete: &types.Delete{TableName: orders, Key: keyOf("7")}},
			}})
			return err
		}, "carts write 4:16, orders write 16:24", "carts write 16:16, orders write 24:28"},
		{"transact get", func() error {
			_, err := d.TransactGetItems(d.ctx, &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
				{Get: &types.Get{TableName: orders, Key: keyOf("3")}}, {Get: &types.Get{TableName: carts, Key: keyOf("1")}},
			}})
			return err
		}, "carts read 4:8, orders read 4:12", "carts read 8:8, orders read 12:12"},
		{"delete", func() error {
			_, err := d.DeleteItem(d.ctx, &dynamodb.DeleteItemInput{TableName: orders, Key: keyOf("3")})
			return err
		}, "orders write 2:18", "orders write 18:2"},
	}
}
