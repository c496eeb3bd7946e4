package tasks

import (
	"net/http"
	"time"

	"github.com/throttle-go/throttle/throttlehttp"
)

// GitHub returns a client that keeps to GitHub's limits; use one for all requests.
func GitHub() *http.Client {
	return &http.Client{Transport: &throttlehttp.Transport{
		MaxWait: 10 * time.Minute, // rather an error than a wait for the next hour
	}}
}
