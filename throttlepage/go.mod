module github.com/throttle-go/throttle/throttlepage

go 1.26.0

replace github.com/throttle-go/throttle => ..

require github.com/throttle-go/throttle v0.0.0
