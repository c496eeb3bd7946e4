package replay

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// The commands of docs/replay.md print what stands below them, from the days that it
// speaks of.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	days := map[string]*traffic{
		"monday.log":  {seed: 21, start: time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC), callers: 8000, flooding: 3, pages: 5000, perHour: 7200},
		"tuesday.log": {seed: 22, start: time.Date(2026, 11, 17, 0, 0, 0, 0, time.UTC), callers: 8000, flooding: 3, pages: 5000, perHour: 7200},
	}
	t.Chdir(t.TempDir())
	for name, day := range days {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := day.write(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```\n\\$ (.*?)```").FindAllStringSubmatch(string(text), -1) {
		for one := range strings.SplitSeq(block[1], "\n$ ") {
			command, want, _ := strings.Cut(one, "\n")
			ran++
			var got string
			switch words := strings.Fields(command); words[0] {
			case "cat":
				data, err := os.ReadFile(filepath.Base(words[1]))
				if err != nil {
					t.Error(err)
				}
				got = string(data)
			default:
				out, errs, _ := clitest.Play(t.Context(), Run, words[2:]...)
				got = out + errs
			}
			if strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("$ %s\n%s\nwant\n%s", command, got, want)
			}
		}
	}
	if ran < 3 {
		t.Errorf("%d commands in the document", ran)
	}
}
