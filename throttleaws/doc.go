// Package throttleaws is a client-side rate limiter for the AWS SDK for Go v2:
// it paces the calls of clients, and retries those that were throttled:
//
//	var gates throttleaws.Gates
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	cfg.APIOptions = append(cfg.APIOptions, gates.Add)
//	db := dynamodb.NewFromConfig(cfg)
//
// All calls that share a limit, such as the writes to one DynamoDB table, wait
// at one throttle.Throttle of package throttle, which learns the limit from the
// answers. The SDK's own retries are off: only one layer retries. Most programs
// need no more than the zero [Gates], one for each AWS account. Where calls of
// DynamoDB differ in what they consume, set its Units.
package throttleaws
