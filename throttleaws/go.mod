module github.com/throttle-go/throttle/throttleaws

go 1.25

require (
	github.com/aws/aws-sdk-go-v2 v1.47.6
	github.com/aws/smithy-go v1.28.8
	github.com/throttle-go/throttle v0.0.0
)

replace github.com/throttle-go/throttle => ..
