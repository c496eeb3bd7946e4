module github.com/throttle-go/throttle/cmd/throttle

go 1.26.0

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.22.1
	github.com/goccy/go-yaml v1.19.2
	github.com/influxdata/tdigest v0.0.1
	github.com/throttle-go/throttle v0.0.0
	golang.org/x/term v0.47.0
)

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/throttle-go/throttle => ../..
