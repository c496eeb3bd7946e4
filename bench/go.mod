module github.com/throttle-go/throttle/bench

go 1.25

require github.com/throttle-go/throttle v0.0.0

replace github.com/throttle-go/throttle => ..
