package rules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/internal/links"
)

// Fetch returns the text of a Set, and a tag of this version. have is the tag
// of the version in use, empty if there is none; nil data without an error
// means that it has not changed. Fetch must return soon after ctx is done.
type Fetch func(ctx context.Context, have string) (data []byte, tag string, err error)

// FromURL fetches by GET from a server, with its ETag as the tag. Bodies above
// MaxSize are refused, and so are all answers but 200 and, to a tag, 304. The
// context bounds the time, see [Source.Timeout]. Errors show neither the password
// nor the query of the URL, which may hold a token. If client is nil,
// [http.DefaultClient].
func FromURL(client *http.Client, url string) Fetch {
	if client == nil {
		client = http.DefaultClient
	}
	return func(ctx context.Context, have string) ([]byte, string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, "", errBadURL // the error of net/url quotes it
		}
		req.Header.Set("Accept", "application/json, */*;q=0.5") // Source.Read may read another format
		if have != "" {
			req.Header.Set("If-None-Match", have)
		}
		resp, err := client.Do(req)
		if err != nil {
			if in := (*neturl.Error)(nil); errors.As(err, &in) {
				err = in.Err
			}
			return nil, "", fmt.Errorf("GET %s: %w", shown(req.URL), err)
		}
		defer resp.Body.Close() // nothing was written that could be lost
		switch {
		case resp.StatusCode == http.StatusNotModified && have != "":
			return nil, have, nil
		case resp.StatusCode != http.StatusOK:
			return nil, "", fmt.Errorf("GET %s: %s", shown(req.URL), resp.Status)
		}
		data, err := readAll(resp.Body)
		return data, resp.Header.Get("ETag"), err
	}
}

var errBadURL = errors.New("the URL cannot be parsed; it must be like https://HOST/PATH")

// shown is a URL without what may be secret: its password and its query. With an @
// behind its host, what seems to be host and path may be a password with a / in it.
func shown(u *neturl.URL) string {
	if strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return u.Scheme + "://…"
	}
	short := *u
	short.Fragment = ""
	if short.RawQuery != "" {
		short.RawQuery = "…"
	}
	return short.Redacted()
}

// FromFile fetches from a file, which it reads each time. Replace the file by
// renaming another one: a half-written file is refused, unless it happens to be
// a Set. A pipe or device is refused too, as its end may never come.
func FromFile(path string) Fetch {
	return func(context.Context, string) ([]byte, string, error) {
		data, err := readFile(path)
		return data, "", err
	}
}

var errPipe = errors.New("is a pipe, a socket or a device, which cannot be read again; name a file")

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // opening a pipe would wait for its other end
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errPipe}
	}
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

// writeKept writes a file so that, whenever the machine stops, the old or the
// new content is there, whole: to another file, to the disk, and by renaming.
// Only its owner may read it. A symbolic link stays, and what it leads to is written.
func writeKept(path string, data []byte) error {
	path = links.Follow(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a renaming durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Shared is a document that several processes read and change, of at most
// [MaxSize] bytes: the Overlay of a [Stack]. [File], throttleredis.Document and
// throttlesql.Document implement it. It is safe for concurrent use, and its calls
// end soon after ctx is done.
type Shared interface {
	// Load returns the document and its version; both empty if there is none.
	Load(ctx context.Context) (version string, data []byte, err error)
	// Swap replaces the document if it still has the version old, which is empty
	// if there is none yet, and returns the new version; not ok if it has another.
	// After an error it is not known whether it was replaced, unless the error has
	// a method Unchanged() bool that reports that it was not.
	Swap(ctx context.Context, old string, data []byte) (version string, ok bool, err error)
}

// File is a [Shared] document on the disk of one machine: it is replaced by
// renaming, so that the old or the new one is there, whole, whenever the machine
// stops. Only its owner may read it. Processes take turns by a lock on Path +
// ".lock", on Unix; elsewhere only one process may swap. It is safe for concurrent
// use.
type File struct {
	// Path is the file, in a folder that exists, or a symbolic link to it, which stays.
	Path string

	mu sync.Mutex // a lock of the file is one of the process on some systems
}

var errNoPath = errors.New("the File has no Path")

// Load reads the file.
func (f *File) Load(context.Context) (version string, data []byte, err error) {
	if f.Path == "" { // which would read as a file that is not there yet
		return "", nil, errNoPath
	}
	data, err = readFile(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, nil
	case err != nil:
		return "", nil, err
	case len(data) > MaxSize:
		return "", nil, fmt.Errorf("%s: longer than %d bytes", f.Path, MaxSize)
	}
	return versionOf(data), data, nil
}

// versionOf returns the version of a document: as it is named by its content, no
// number can be lost or used twice.
func versionOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Swap replaces the file.
func (f *File) Swap(ctx context.Context, old string, data []byte) (version string, ok bool, err error) {
	switch {
	case f.Path == "":
		return "", false, errNoPath
	case len(data) > MaxSize:
		return "", false, fmt.Errorf("%s: longer than %d bytes", f.Path, MaxSize)
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	now, _, err := f.Load(ctx)
	if err != nil || now != old {
		return "", false, err
	}
	if err := writeKept(f.Path, data); err != nil {
		return "", false, err
	}
	return versionOf(data), true, nil
}

// lockPause is the time from one try to get the lock to the next.
const lockPause = 5 * time.Millisecond

// lock waits for the turn of this process.
func (f *File) lock(ctx context.Context) (unlock func(), err error) {
	for {
		if unlock, ok, err := f.tryLock(); ok || err != nil {
			return unlock, err
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%s.lock: another process has it: %w", f.Path, context.Cause(ctx))
		}
	}
}

func (f *File) tryLock() (unlock func(), ok bool, err error) {
	if !f.mu.TryLock() {
		return nil, false, nil
	}
	held, err := os.OpenFile(links.Follow(f.Path)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		if ok, err = lock(held); !ok {
			err = errors.Join(err, held.Close())
		}
	}
	if !ok {
		f.mu.Unlock()
		return nil, false, err
	}
	return func() {
		_ = held.Close() // which unlocks it; nothing was written to it
		f.mu.Unlock()
	}, true, nil
}
