module github.com/throttle-go/throttle/bench

go 1.26.0

require (
	github.com/aws/aws-sdk-go-v2 v1.47.6
	github.com/aws/smithy-go v1.28.8
	github.com/cenkalti/backoff/v5 v5.0.3
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/platinummonkey/go-concurrency-limits v0.8.0
	github.com/throttle-go/throttle v0.0.0
	github.com/throttle-go/throttle/cmd/throttle v0.0.0
	golang.org/x/time v0.16.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
)

replace github.com/throttle-go/throttle => ..

replace github.com/throttle-go/throttle/cmd/throttle => ../cmd/throttle
