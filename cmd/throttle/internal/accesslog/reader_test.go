package accesslog

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// lineAt is a line of the common format, the path of which is its number.
func lineAt(t time.Time, n int) string {
	return fmt.Sprintf("192.0.2.1 - - [%s] \"GET /%d HTTP/1.1\" 200 1\n", t.UTC().Format("02/Jan/2006:15:04:05 -0700"), n)
}

// written writes a file of a test.
func written(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// paths reads logs, and returns the paths of all requests.
func paths(t *testing.T, names []string, stdin io.Reader, o Options) (all []string, s Stats, err error) {
	t.Helper()
	r, err := Open(t.Context(), names, stdin, o)
	if err != nil {
		return nil, s, err
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	for {
		e, _, err := r.Next(t.Context())
		if err != nil || e == nil {
			return all, r.Stats(), err
		}
		all = append(all, e.Path)
	}
}

func joined(all []string) string { return strings.Join(all, "") }

func TestReader(t *testing.T) {
	s := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	abc := lineAt(s(0), 1) + lineAt(s(0), 2) + "\r\n" + lineAt(s(2), 4) + lineAt(s(1), 3) + strings.TrimSuffix(lineAt(s(9), 5), "\n")
	for _, test := range []struct {
		name  string
		files []string
		o     Options
		want  string
	}{
		{"within a window", []string{abc}, Options{Window: 2 * time.Second}, "/1/2/3/4/5"},
		{"without", []string{abc}, Options{}, "/1/2/4/3/5"},
		{"gzip", []string{string(zipped(t, abc))}, Options{Window: 2 * time.Second}, "/1/2/3/4/5"},
		{"gzip of two members", []string{string(zipped(t, lineAt(s(0), 1))) + string(zipped(t, lineAt(s(0), 2)))}, Options{}, "/1/2"},
		{"gzip padded with zeros", []string{string(zipped(t, abc)) + strings.Repeat("\x00", 2*headSize)}, Options{Window: 2 * time.Second}, "/1/2/3/4/5"},
		{"two that overlap", []string{lineAt(s(1), 2) + lineAt(s(4), 4), lineAt(s(0), 1) + lineAt(s(2), 3) + lineAt(s(5), 5)}, Options{}, "/1/2/3/4/5"},
		{"equal times, in the order of the files", []string{lineAt(s(0), 1) + lineAt(s(1), 4), lineAt(s(0), 2) + lineAt(s(0), 3)}, Options{}, "/1/2/3/4"},
		{"one after the other, one empty", []string{lineAt(s(5), 3), "", lineAt(s(0), 1) + lineAt(s(1), 2)}, Options{}, "/1/2/3"},
		{"a byte order mark", []string{"\ufeff" + lineAt(s(0), 1)}, Options{}, "/1"},
		{"of two formats", []string{lineAt(s(0), 1), `{"ts": 1795371263, "path": "/2"}`}, Options{}, "/1/2"},
		{"csv", []string{"time,path\n1795371261,/1\n1795371262,/2"}, Options{}, "/1/2"},
		{"csv after empty lines", []string{"\n\r\ntime,path\r\n1795371261,/1\n1795371262,/2"}, Options{}, "/1/2"},
		{"csv by name after empty lines", []string{"\n\ntime,path\n1795371261,/1"}, Options{Format: "csv"}, "/1"},
		{"one bad of three", []string{lineAt(s(0), 1) + "bad\n" + lineAt(s(0), 2)}, Options{Bad: 0.34}, "/1/2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var names []string
			for _, text := range test.files {
				names = append(names, written(t, "log", []byte(text)))
			}
			all, _, err := paths(t, names, nil, test.o)
			if err != nil || joined(all) != test.want {
				t.Errorf("%s, %v; want %s", joined(all), err, test.want)
			}
		})
	}
}

// Each mistake is one line with the file and, where there is one, the line.
func TestReaderErrors(t *testing.T) {
	good := lineAt(at, 1)
	cut := zipped(t, strings.Repeat(good, 5000))
	for _, test := range []struct {
		name, text string
		o          Options
		want       string
	}{
		{"empty", "", Options{}, "LOG: is empty"},
		{"blank", "\n\n \n", Options{}, "LOG: is empty"},
		{"another format", "some words\n", Options{}, `LOG:1: the format is not known; name it by -format: envoy, nginx`},
		{"not this one", good, Options{Format: "json"}, `LOG:1: as format json: not an object of JSON: "192.0.2.1 - - [22/Nov/2026:18:14:21 +000..."; 1 of 1 lines are bad, and at most 0% may be`},
		{"a bad line", good + good + "x\n" + good, Options{}, `LOG:3: as format common: no " " after $remote_addr; 1 of 4 lines are bad, and at most 0% may be`},
		{"too many bad lines", strings.Repeat(good, 50) + strings.Repeat("x\n", 2000) + strings.Repeat(good, 1000), Options{Bad: 0.01, Format: "common"}, `LOG:51: as format common:`},
		{"a long line", good + strings.Repeat("x", 70_000) + "\n" + good, Options{}, `LOG:2: as format common: longer than 64 KiB`},
		{"a very long line", good + strings.Repeat("x", 3*chunkSize) + "\n" + good, Options{}, `LOG:2: as format common: longer than 64 KiB; 1 of 3 lines`},
		{"cut off", string(cut[:len(cut)-30]), Options{}, "the gzip data is cut off; write 'gzip -dc FILE | throttle replay ... -'"},
		{"cut off at once", "\x1f\x8b", Options{}, "LOG: the gzip data is cut off"},
		{"gzip and a rest", string(zipped(t, good)) + "\x00rest", Options{}, "LOG: behind the gzip data stands something else; write 'gzip -dc FILE"},
		{"gzip and a wrong header", string(zipped(t, good)) + strings.Repeat("x", 20), Options{}, "LOG: behind the gzip data stands something else"},
		{"zstd", "\x28\xb5\x2f\xfd", Options{}, "LOG: compressed by zstd"},
		{"names alone", "time,path", Options{}, "LOG: only a line of names"},
		{"names without an end", "time,path," + strings.Repeat("x,", headSize), Options{Format: "csv"}, "LOG: no line of names within the first 64 KiB"},
		{"names after empty lines", "\n\ntime,path\nx,/\n", Options{}, "LOG:4: as format csv: not a time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := written(t, "log", []byte(test.text))
			_, _, err := paths(t, []string{name}, nil, test.o)
			want := strings.Replace(test.want, "LOG", name, 1)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
	if _, err := Open(t.Context(), []string{filepath.Join(t.TempDir(), "none")}, nil, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Open(t.Context(), []string{t.TempDir()}, nil, Options{}); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Open(t.Context(), make([]string, MostFiles+1), nil, Options{}); err == nil {
		t.Error("too many files were opened")
	}
	broken := io.MultiReader(strings.NewReader(good), iotest.ErrReader(errors.New("pipe burst")))
	if _, _, err := paths(t, []string{"-"}, broken, Options{}); err == nil || !strings.Contains(err.Error(), "pipe burst") {
		t.Errorf("a broken pipe: %v", err)
	}
}

// However a log is cut into chunks, no line is lost, doubled or out of order, and a
// line that is too long costs its neighbours nothing.
func TestReaderOfManyChunks(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var b, want strings.Builder
	bad := int64(0)
	lines := int64(0)
	for i := range 30_000 {
		lines++
		if random.IntN(3000) == 0 {
			b.WriteString(strings.Repeat("y", random.IntN(3*chunkSize)) + "\n")
			if bad++; lines > 1 {
				continue
			}
		}
		b.WriteString(lineAt(at.Add(time.Duration(i/10)*time.Second), i))
		fmt.Fprintf(&want, "/%d", i)
	}
	for name, stdin := range map[string]io.Reader{"whole": strings.NewReader(b.String()), "in pieces": iotest.HalfReader(strings.NewReader(b.String()))} {
		all, s, err := paths(t, []string{"-"}, stdin, Options{Bad: 0.01, Window: 5 * time.Second})
		if err != nil || joined(all) != want.String() {
			t.Errorf("%s: %d paths of %d bytes, %v; want %d bytes", name, len(all), len(joined(all)), err, want.Len())
		}
		if s.Bad != bad || s.Lines != lines || bad == 0 {
			t.Errorf("%s: %d lines, %d bad; want %d, %d", name, s.Lines, s.Bad, lines, bad)
		}
	}
}

// Next ends with its context, and Close with all that was begun.
func TestReaderEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	name := written(t, "log", []byte(strings.Repeat(lineAt(at, 1), 50_000)))
	r, err := Open(ctx, []string{name}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, _, err := r.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	for err == nil {
		var e *Entry
		if e, _, err = r.Next(ctx); e == nil && err == nil {
			t.Fatal("all was read after the end of the context")
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkReader(b *testing.B) {
	var log strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&log, "192.0.%d.%d - - [%s] \"GET /api/v1/things/%d?q=1 HTTP/1.1\" 200 1234 \"https://example.com/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\"\n",
			i>>8&255, i&255, at.Add(time.Duration(i)*10*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"), i%100)
	}
	b.SetBytes(int64(log.Len()))
	b.ReportAllocs()
	for b.Loop() {
		r, err := Open(b.Context(), []string{"-"}, strings.NewReader(log.String()), Options{Window: 10 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		for {
			e, _, err := r.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if e == nil {
				break
			}
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*50_000/b.Elapsed().Seconds(), "lines/s")
}

// growing is a log to which more is written after its end was read once.
type growing struct{ parts []string }

func (g *growing) Read(p []byte) (int, error) {
	if len(g.parts) == 0 || g.parts[0] == "" {
		g.parts = g.parts[min(1, len(g.parts)):]
		return 0, io.EOF
	}
	n := copy(p, g.parts[0])
	if g.parts[0] = g.parts[0][n:]; g.parts[0] == "" {
		g.parts = append([]string{""}, g.parts[1:]...)
	}
	return n, nil
}

// A log that is still being written ends where it was read to.
func TestReaderOfALogThatGrows(t *testing.T) {
	more := strings.Repeat(lineAt(at, 2), 10)
	g := &growing{parts: []string{lineAt(at, 1), more, more, more}}
	var got strings.Builder
	readChunks(t.Context(), g, func(c *chunk) bool {
		if got.WriteString(c.text); c.err != nil {
			t.Errorf("error %v", c.err)
		}
		return true
	})
	if got.String() != lineAt(at, 1) {
		t.Errorf("read %q, want the first line", got.String())
	}
}

// A source that no line of JSON has is told of at the end.
func TestMissingSources(t *testing.T) {
	given, err := ParseFields("header:x-api-key=key,header:x-other=nokey,value:plan=PLAN,value:also=nokey,client=who.id," + "host=" + strings.Repeat("h", mostSource))
	if err != nil {
		t.Fatal(err)
	}
	log := `{"time": 1795371261, "key": "k", "who": {"id": 7}, "` + strings.Repeat("h", mostSource) + `": ""}` + "\n"
	late := strings.Repeat(log, 2*chunkSize/len(log)) + `{"time": 1795371261, "plan": "gold"}`
	for _, test := range []struct {
		name  string
		files []string
		want  string
	}{
		{"one log", []string{log}, "[nokey PLAN]"},
		{"seen late", []string{late}, "[nokey]"},
		{"one of two", []string{log, late}, "[nokey]"},
	} {
		var names []string
		for _, text := range test.files {
			names = append(names, written(t, "log", []byte(text)))
		}
		_, s, err := paths(t, names, nil, Options{Fields: given})
		if err != nil || fmt.Sprint(s.Missing) != test.want {
			t.Errorf("%s: missing %v, %v; want %s", test.name, s.Missing, err, test.want)
		}
	}
}

// Lines that wait for earlier ones are bounded in bytes: beyond, the earliest goes on.
func TestWaitingBytes(t *testing.T) {
	const most, n = 4 * chunkSize, 40
	var b strings.Builder
	for i := range n {
		line := lineAt(at.Add(time.Duration(i+1)*time.Second), i)
		b.WriteString(strings.TrimSuffix(line, "\n") + " " + strings.Repeat("x", 60<<10) + "\n")
	}
	b.WriteString(lineAt(at, n)) // the earliest, behind too much
	r, err := Open(t.Context(), []string{"-"}, strings.NewReader(b.String()), Options{Window: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if f := r.files[0]; f.mostBytes != mostWaitingBytes {
		t.Errorf("%d bytes may wait, want %d", f.mostBytes, mostWaitingBytes)
	}
	r.files[0].mostBytes = most
	var all []string
	held := 0
	for {
		e, _, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		all = append(all, e.Path)
		held = max(held, r.files[0].bytes)
	}
	if len(all) != n+1 || all[0] != "/0" || all[n] == fmt.Sprintf("/%d", n) {
		t.Errorf("order %v: the last line is neither first nor last", all)
	}
	if held > most+chunkSize || held <= most/2 || r.files[0].bytes != 0 {
		t.Errorf("at most %d bytes wait, want up to %d; and %d at the end", held, most, r.files[0].bytes)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
