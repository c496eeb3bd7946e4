package tasks

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

const page = "../../docs/tasks.md"

var update = flag.Bool("update", false, "rewrite the code and the answers in docs/tasks.md; read the difference")

// files are where the code of each task stands.
var files = []string{
	"apikey.go", "github.go", "workers.go", "fallback.go", "database.go", "jobs.sh", "why.go", "wait_test.go",
	"tenants.go", "../../throttleotel/example_test.go",
}

var (
	headings = regexp.MustCompile(`(?m)^## \d+\. `)
	code     = regexp.MustCompile("(?ms)^```(?:go|sh)\n(.*?)^```\n")
	answers  = regexp.MustCompile("(?ms)^```text\n(.*?)^```\n")
	howTo    = regexp.MustCompile(`(?m)\nMore: \[[^\]]+\]\([a-z]+\.md#?[^)]*\)[^\n]*\n*$`)
	imports  = regexp.MustCompile(`(?s)^import \(.*?\n\)\n\n`)

	// Times, waits and rates depend on chance, and on the time of day.
	clock = regexp.MustCompile(`\d\d:\d\d:\d\d`)
	waits = regexp.MustCompile(`(wait[= ]|in )[0-9hmµs.]+`)
	rates = regexp.MustCompile(`[0-9.]+/s`)
)

// plain returns text without them.
func plain(text string) string {
	text = clock.ReplaceAllString(text, "TIME")
	text = waits.ReplaceAllString(text, "${1}WAIT")
	return rates.ReplaceAllString(text, "RATE")
}

// tasks are the sections of the page.
func tasks(t *testing.T) (text string, sections []string) {
	t.Helper()
	all, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text = string(all)
	at := headings.FindAllStringIndex(text, -1)
	for i, a := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		sections = append(sections, text[a[0]:end])
	}
	if len(sections) != len(files) {
		t.Fatalf("%s has %d tasks, want %d", page, len(sections), len(files))
	}
	return text, sections
}

// block checks, or writes with -update, a block of task n, by the same measure.
func block(t *testing.T, n int, kind *regexp.Regexp, want string, measure func(string) string) {
	t.Helper()
	text, sections := tasks(t)
	section := sections[n-1]
	all := kind.FindAllStringSubmatchIndex(section, -1)
	if len(all) != 1 {
		t.Fatalf("%s: task %d has %d such blocks, want 1", page, n, len(all))
	}
	begin, end := all[0][2], all[0][3]
	got := section[begin:end]
	switch {
	case measure(got) == measure(want):
	case *update:
		text = strings.Replace(text, section, section[:begin]+want+section[end:], 1)
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: task %d says\n%s\nwant (go test -update)\n%s", page, n, got, want)
	}
}

// says checks what the page says that task n answers.
func says(t *testing.T, n int, want string) {
	t.Helper()
	block(t, n, answers, want, plain)
}

// source is the code of task n as it stands on the page.
func source(t *testing.T, n int) string {
	t.Helper()
	text, err := os.ReadFile(files[n-1])
	if err != nil {
		t.Fatal(err)
	}
	if n < len(files) {
		return strings.TrimPrefix(string(text), "package tasks\n\n")
	}
	_, body, _ := strings.Cut(string(text), "func (s *service) export(mux *http.ServeMux) error {\n")
	body, _, ok := strings.Cut(body, "\n}\n")
	if !ok {
		t.Fatalf("%s has no method export", files[n-1])
	}
	return strings.ReplaceAll(strings.TrimPrefix(body, "\t"), "\n\t", "\n") + "\n"
}

// TestPage: the code of each task is that which the tests run, is short, and leads on.
func TestPage(t *testing.T) {
	_, sections := tasks(t)
	for i, section := range sections {
		want := source(t, i+1)
		if i+1 == len(files) {
			m := code.FindStringSubmatch(section)
			if m == nil {
				t.Fatal("the last task has no code")
			}
			want = imports.FindString(m[1]) + want
		}
		block(t, i+1, code, want, func(text string) string { return text })
		if n := lines(want); n >= 20 {
			t.Errorf("task %d takes %d lines besides the imports, want fewer than 20", i+1, n)
		}
		if !howTo.MatchString(section) {
			t.Errorf("task %d does not end with a line that begins with More: and a link", i+1)
		}
	}
}

// lines counts the lines of code, without its imports.
func lines(code string) int {
	return strings.Count(imports.ReplaceAllString(code, ""), "\n")
}

// TestPageOfOthers holds the answers of the two tasks that other tests run.
func TestPageOfOthers(t *testing.T) {
	const test = "TestComesBackAfterRetryAfter"
	says(t, 8, "--- PASS: "+test+" (0.00s)\n")
	if !strings.Contains(source(t, 8), "func "+test+"(t *testing.T)") {
		t.Errorf("task 8 has no %s", test)
	}
	example, err := os.ReadFile(files[9])
	if err != nil {
		t.Fatal(err)
	}
	_, output, _ := strings.Cut(string(example), "// Output: ")
	output, _, _ = strings.Cut(output, "\n")
	says(t, 10, output+"\n")
}

func TestPageBites(t *testing.T) {
	for code, want := range map[string]int{
		"import (\n\t\"a\"\n\n\t\"b\"\n)\n\nfunc f() {\n}\n": 2,
		"a\n\nb\n":                3,
		strings.Repeat("a\n", 20): 20,
	} {
		if got := lines(code); got != want {
			t.Errorf("lines(%q) = %d, want %d", code, got, want)
		}
	}
	if plain("throttle waits wait=1.2s, paced at 3/s since 12:00:00") == plain("throttle starts wait=1s, paced at 4/s since 12:00:01") {
		t.Error("plain leaves nothing to tell answers apart")
	}
}
