package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/near"
	"github.com/throttle-go/throttle/limit"
)

// Scalars of the file beside text, numbers, true and false.
type (
	// Listen is HOST:PORT, :PORT, unix:PATH or systemd:NAME.
	Listen string
	// Target is HOST:PORT of a server.
	Target string
	// Path is a file, from where the file stands that names it.
	Path string
	// Secret is text that is not shown.
	Secret string
	// Web is the URL of a page: http or https.
	Web string
	// Upstream is where requests go.
	Upstream string
	// StoreURL is the URL of a store.
	StoreURL string
	// Field is a header field, as header:NAME; its value is the NAME.
	Field string
	// Size is a number of bytes.
	Size int64
	// Overlay is a file, or InStore.
	Overlay string
)

// Rate is a rate that is known, with a burst or none.
type Rate limit.Limit

// InStore is an Overlay that all instances share.
const InStore Overlay = "store"

// String hides the secret.
func (Secret) String() string { return "(secret)" }

// GoString hides the secret.
func (Secret) GoString() string { return "(secret)" }

// A kind is one kind of scalar.
type kind struct {
	what    string    // it must be, such as "a duration"
	kind    tree.Kind // in the file
	unit    string    // a number may lack, to be proposed
	pattern string    // of texts, for the schema
	// read reads text into v. It returns what is wrong, or "".
	read func(d *decoder, text string, v reflect.Value, f field, k kind) string
}

var kinds = map[reflect.Type]kind{
	reflect.TypeFor[string]():        {what: "text", kind: tree.Text, read: readText},
	reflect.TypeFor[bool]():          {what: "true or false", kind: tree.Bool, read: readBool},
	reflect.TypeFor[int]():           {what: "a whole number", kind: tree.Number, read: readInt},
	reflect.TypeFor[time.Duration](): {what: "a duration", kind: tree.Text, unit: "s", pattern: durations.String(), read: readDuration},
	reflect.TypeFor[netip.Prefix]():  {what: "an address or a network, as 10.0.0.0/8", kind: tree.Text, pattern: `^[0-9a-fA-F:.]+(/[0-9]{1,3})?$`, read: readNetwork},
	reflect.TypeFor[Listen]():        {what: "an address to listen on, as 127.0.0.1:8080, :8080 or unix:/run/throttle.sock", kind: tree.Text, pattern: `^((unix|systemd):.+|.*:[0-9]{1,5})$`, read: readListen},
	reflect.TypeFor[Target]():        {what: "HOST:PORT of a server", kind: tree.Text, pattern: `^[^/]+:[0-9]{1,5}$`, read: readTarget},
	reflect.TypeFor[Path]():          {what: "the path of a file", kind: tree.Text, pattern: `.`, read: readPath},
	reflect.TypeFor[Secret]():        {what: "a secret, as ${NAME} or ${file:PATH}", kind: tree.Text, pattern: `.`, read: readSecret},
	reflect.TypeFor[Web]():           {what: "a URL, as https://HOST/PATH", kind: tree.Text, pattern: `^https?://[^/]`, read: readWeb},
	reflect.TypeFor[Upstream]():      {what: "a URL, as http://HOST:PORT", kind: tree.Text, pattern: `^(https?|h2c|dns\+srv)://[^/]`, read: readUpstream},
	reflect.TypeFor[StoreURL]():      {what: "the URL of a store, as memory:, redis://HOST or postgres://USER@HOST/DATABASE", kind: tree.Text, pattern: `^[a-z][a-z0-9+]*:`, read: readStoreURL},
	reflect.TypeFor[Field]():         {what: "a header field, as header:Authorization", kind: tree.Text, pattern: "^header:[A-Za-z0-9!#$%&'*+.^_|~-]+$", read: readField},
	reflect.TypeFor[Rate]():          {what: "a rate, as 4/s or 100/min burst 10", kind: tree.Text, unit: "/s", pattern: `^[0-9.]+/`, read: readRate},
	reflect.TypeFor[Size]():          {what: "a size, as 64KiB or 10MB", kind: tree.Text, unit: "B", pattern: `^[0-9]+(B|kB|KiB|MB|MiB|GB|GiB)$`, read: readSize},
	reflect.TypeFor[Overlay]():       {what: "the path of a file, or store", kind: tree.Text, pattern: `.`, read: readOverlay},
}

func readText(_ *decoder, text string, v reflect.Value, f field, _ kind) string {
	switch {
	case len(f.oneof) > 0 && !slices.Contains(f.oneof, text):
		if likely := near.Of(text, f.oneof); likely != "" {
			return "must be " + oneOf(f.oneof) + "; did you mean " + likely + "?"
		}
		return "must be " + oneOf(f.oneof)
	case text == "":
		return "must not be empty; leave it out"
	}
	v.SetString(text)
	return ""
}

func readBool(_ *decoder, text string, v reflect.Value, _ field, _ kind) string {
	if text != "true" && text != "false" {
		return "must be true or false"
	}
	v.SetBool(text == "true")
	return ""
}

func readInt(_ *decoder, text string, v reflect.Value, f field, k kind) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "must be " + f.scalarShape(k)
	}
	v.SetInt(n)
	return f.withinNumber(n, k)
}

func readDuration(_ *decoder, text string, v reflect.Value, f field, k kind) string {
	d, ok := words.Duration(text)
	if !ok || !durations.MatchString(text) {
		return "is not a duration; write a number and ms, s, m or h, as in 500ms or 1m30s"
	}
	v.SetInt(int64(d))
	return f.withinNumber(int64(d), k)
}

var durations = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)

func readNetwork(_ *decoder, text string, v reflect.Value, _ field, _ kind) string {
	p, err := netip.ParsePrefix(text)
	if a, notOne := netip.ParseAddr(text); err != nil && notOne == nil && a.Zone() == "" {
		p, err = a.Unmap().Prefix(a.Unmap().BitLen())
	}
	switch {
	case err != nil:
		return "must be an address or a network, as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32"
	case p != p.Masked():
		return "has bits set beyond its length; write " + p.Masked().String()
	}
	v.Set(reflect.ValueOf(p))
	return ""
}

// longestSocket is the longest path of a socket, which ends with a zero byte.
const longestSocket = len(syscall.RawSockaddrUnix{}.Path) - 1

func readListen(d *decoder, text string, v reflect.Value, _ field, _ kind) string {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		whole := beside(d.file, path)
		switch {
		case path == "":
			return "unix: without a path; write unix:/run/throttle.sock"
		case path[0] == '@':
			return "must be a file, not an abstract socket, which every user may open; write unix:/run/throttle.sock"
		case len(whole) > longestSocket:
			return fmt.Sprintf("its path has %d bytes, and a socket has at most %d; write a shorter one, as unix:/run/throttle.sock", len(whole), longestSocket)
		}
		v.SetString("unix:" + whole)
		return ""
	}
	if name, ok := strings.CutPrefix(text, "systemd:"); ok {
		if name == "" {
			return "systemd: without a name; write the FileDescriptorName of the socket unit"
		}
		v.SetString(text)
		return ""
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "must be HOST:PORT, as 127.0.0.1:8080; :8080 is every address of this machine" + words.Brackets(text)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > math.MaxUint16 {
		return "the port must be a number from 0 to 65535"
	}
	if strings.ContainsAny(host, "/ ") {
		return "the host must be a name or an address"
	}
	v.SetString(text)
	return ""
}

func readTarget(_ *decoder, text string, v reflect.Value, _ field, _ kind) string {
	host, port, err := net.SplitHostPort(text)
	n, notOne := strconv.Atoi(port)
	switch {
	case err != nil || host == "" || strings.ContainsAny(host, "/ "):
		return "must be HOST:PORT, as envoy-gateway:18001" + words.Brackets(text)
	case notOne != nil || n < 1 || n > math.MaxUint16:
		return "the port must be a number from 1 to 65535"
	}
	v.SetString(text)
	return ""
}

func readPath(d *decoder, text string, v reflect.Value, _ field, _ kind) string {
	if text == "" {
		return "must not be empty; leave it out"
	}
	v.SetString(beside(d.file, text))
	return ""
}

func readSecret(_ *decoder, text string, v reflect.Value, _ field, _ kind) string {
	if text == "" {
		return "must not be empty; leave it out"
	}
	v.SetString(text)
	return ""
}

// readURL reads a URL. It never shows it: there may be a password in it.
func readURL(text string, schemes ...string) (u *url.URL, what string) {
	example := schemes[0] + "://HOST:PORT"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "" || u.Opaque != "":
		return nil, "is not a URL; write " + example + words.Brackets(text)
	case !slices.Contains(schemes, u.Scheme):
		return nil, "begins with " + words.Quote(u.Scheme+":") + "; it must be " + oneOf(schemes)
	case u.Host == "":
		return nil, "has no host; write " + example
	case words.StrayAt(u):
		return nil, "has an @ behind its host; write %40, and %2F, %3F or %23 for a /, ? or # in a password"
	case u.Fragment != "":
		return nil, "must have no #"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > math.MaxUint16 {
			return nil, "the port must be a number from 1 to 65535"
		}
	}
	return u, ""
}

func readWeb(_ *decoder, text string, v reflect.Value, _ field, _ kind) string {
	_, what := readURL(text, "https", "http")
	v.SetString(text)
	return what
}

func readUpstream(_ *decoder, text string, v reflect.Value, _ field, _ kind) string {
	u, what := readURL(text, upstreamSchemes...)
	if what == "" && (u.User != nil || u.RawQuery != "") {
		what = "must have no user and no query"
	}
	v.SetString(text)
	return what
}

// upstreamSchemes are those of Upstream.
var upstreamSchemes = []string{"http", "https", "h2c", "dns+srv"}

func readStoreURL(_ *decoder, text string, v reflect.Value, _ field, _ kind) string {
	scheme, rest, found := strings.Cut(text, ":")
	if known := []string{"memory", "redis", "rediss", "redis+sentinel", "rediss+sentinel", "postgres", "postgresql"}; !found || !slices.Contains(known, scheme) {
		return "must be memory:, redis://HOST, redis://HOST,HOST/?cluster=true, redis+sentinel://HOST,HOST/MASTER or postgres://USER@HOST/DATABASE"
	}
	if scheme == "memory" && strings.TrimPrefix(rest, "//") != "" {
		return "memory: is in this process and names no file; write memory:, and a file into snapshot for what it counts to outlive a restart"
	}
	v.SetString(text)
	return ""
}

func readSize(_ *decoder, text string, v reflect.Value, f field, k kind) string {
	n, ok := sizeOf(text)
	if !ok {
		return "is not a size; write a number and B, kB, KiB, MB, MiB, GB or GiB, as in 64KiB"
	}
	v.SetInt(n)
	return f.withinNumber(n, k)
}

// sizeOf reads a number of bytes.
func sizeOf(text string) (int64, bool) {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end <= 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	unit := map[string]int64{"B": 1, "kB": 1000, "KiB": 1 << 10, "MB": 1e6, "MiB": 1 << 20, "GB": 1e9, "GiB": 1 << 30}[text[end:]]
	if err != nil || unit == 0 || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

func readField(_ *decoder, text string, v reflect.Value, _ field, _ kind) string {
	name, ok := strings.CutPrefix(text, "header:")
	if !ok || !httpguts.ValidHeaderFieldName(name) || strings.Contains(name, "`") {
		return "must be a header field, as header:Authorization"
	}
	v.SetString(name)
	return ""
}

func readRate(_ *decoder, text string, v reflect.Value, _ field, _ kind) string {
	l, err := limit.Parse(text, nil)
	switch {
	case err != nil:
		return strings.TrimPrefix(err.Error(), "limit: ")
	case l.Kind != limit.TokenBucket || l.Count <= 0 || l.Unlimited():
		return "must be a rate above zero, as 4/s or 100/min burst 10"
	}
	v.Set(reflect.ValueOf(Rate(l)))
	return ""
}

func readOverlay(d *decoder, text string, v reflect.Value, f field, k kind) string {
	if Overlay(text) == InStore {
		v.SetString(text)
		return ""
	}
	return readPath(d, text, v, f, k)
}
