package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/throttleaws"
)

// modes are the ways to retry that are compared.
var modes = []string{"throttle", "sdk-standard", "sdk-adaptive"}

// probe is how often a Throttle tries whether there is more. Capacity moves every
// few seconds here, not every few minutes as with real auto scaling, so it is
// much shorter than the usual minute.
const probe = 2 * time.Second

// client is a DynamoDB client that retries as mode says.
func client(endpoint, mode, who string) (*dynamodb.Client, error) {
	cfg := aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider(who, "secret", ""),
		HTTPClient:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
	}
	switch mode {
	case "throttle":
		gates := &throttleaws.Gates{Throttles: &throttle.Group{New: func(string) *throttle.Throttle {
			return &throttle.Throttle{Control: &pace.Adaptive{Probe: probe}, Budget: pace.AWSBudget}
		}}}
		cfg.APIOptions = append(cfg.APIOptions, gates.Add)
	case "sdk-standard":
		cfg.Retryer = func() aws.Retryer { return retry.NewStandard() }
	case "sdk-adaptive":
		one := retry.NewAdaptiveMode() // for all calls, as the SDK means it to be
		cfg.Retryer = func() aws.Retryer { return one }
	default:
		return nil, fmt.Errorf("mode %q: want one of %v", mode, modes)
	}
	return dynamodb.NewFromConfig(cfg), nil
}

const tableName = "orders"

// create makes the table.
func create(ctx context.Context, c *dynamodb.Client) error {
	_, err := c.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            aws.String(tableName),
		BillingMode:          types.BillingModePayPerRequest, // the capacity is that of the proxy
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		return err
	}
	return dynamodb.NewTableExistsWaiter(c, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 10*time.Millisecond, 100*time.Millisecond
	}).Wait(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(tableName)}, 10*time.Second)
}

func put(ctx context.Context, c *dynamodb.Client, id string) error {
	_, err := c.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(tableName),
		Item:      map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: id}},
	})
	return err
}

// work is what one process does: workers that write one item after the other,
// for so long. A write that was given up would be logged by a real program; here
// it is counted, and the worker goes on after a tenth of a second.
func work(ctx context.Context, c *dynamodb.Client, who string, workers int, long time.Duration) report {
	var all sync.WaitGroup
	var mu sync.Mutex // guards r and took
	var r report
	var took []time.Duration
	begin := time.Now()
	for w := range workers {
		all.Go(func() {
			for i := 0; ctx.Err() == nil && time.Since(begin) < long; i++ {
				start := time.Now()
				err := put(ctx, c, fmt.Sprintf("%s-%d-%d", who, w, i))
				mu.Lock()
				took = append(took, time.Since(start))
				if err == nil {
					r.Written++
				} else {
					r.Lost++
				}
				mu.Unlock()
				if err != nil {
					pause(ctx, 100*time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	if slices.Sort(took); len(took) > 0 {
		r.Slow = took[(len(took)-1)*99/100]
	}
	return r
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
