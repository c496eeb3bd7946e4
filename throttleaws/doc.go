// Package throttleaws paces the calls of clients of the AWS SDK for Go v2, and
// makes those again that were throttled:
//
//	var gates Gates
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	cfg.APIOptions = append(cfg.APIOptions, gates.Add)
//	db := dynamodb.NewFromConfig(cfg)
//
// All calls that share a limit, such as the writes to one DynamoDB table, wait
// at one throttle.Throttle, which learns the limit from the answers. The retries
// of the SDK are off: only one layer retries.
package throttleaws
