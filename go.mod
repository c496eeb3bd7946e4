module github.com/throttle-go/throttle

go 1.25
