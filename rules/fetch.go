package rules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// Fetch returns the text of a Set, and a tag of this version. have is the tag
// of the version in use, empty if there is none; nil data without an error
// means that it has not changed. Fetch must return soon after ctx is done.
type Fetch func(ctx context.Context, have string) (data []byte, tag string, err error)

// FromURL fetches by GET from a server, with its ETag as the tag. Bodies above
// MaxSize are refused, and so are all answers but 200 and, to a tag, 304. The
// context bounds the time, see [Source.Timeout]. If client is nil,
// [http.DefaultClient].
func FromURL(client *http.Client, url string) Fetch {
	if client == nil {
		client = http.DefaultClient
	}
	return func(ctx context.Context, have string) ([]byte, string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, "", err
		}
		req.Header.Set("Accept", "application/json")
		if have != "" {
			req.Header.Set("If-None-Match", have)
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close() // nothing was written that could be lost
		switch {
		case resp.StatusCode == http.StatusNotModified && have != "":
			return nil, have, nil
		case resp.StatusCode != http.StatusOK:
			return nil, "", fmt.Errorf("GET %s: %s", req.URL.Redacted(), resp.Status)
		}
		data, err := readAll(resp.Body)
		return data, resp.Header.Get("ETag"), err
	}
}

// FromFile fetches from a file, which it reads each time. Replace the file by
// renaming another one: a half-written file is refused, unless it happens to be
// a Set.
func FromFile(path string) Fetch {
	return func(context.Context, string) ([]byte, string, error) {
		data, err := readFile(path)
		return data, "", err
	}
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from
	return readAll(f)
}

// readAll reads as much as Parse needs to tell what is too long. Without an
// error it is never nil.
func readAll(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, MaxSize+1))
}

var errNothing = errors.New("the source says that nothing has changed, but nothing has been loaded from it")
