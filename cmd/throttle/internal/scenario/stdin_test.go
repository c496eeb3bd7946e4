package scenario

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

// TestStandardInput: - is read as a file is, is named so in errors, and is called stdin
// unless it says another name.
func TestStandardInput(t *testing.T) {
	const good = "duration: 1m\nserver: {rate: 4/s}\nclients: [{processes: 1, workers: 1}]\n"
	for _, c := range []struct {
		names []string
		text  string
		want  string // the name of the first scenario, or an error
	}{
		{[]string{"-"}, good, "stdin"},
		{[]string{"-", "emr"}, "name: mine\n" + good, "mine"},
		{[]string{"-"}, "duration: 1m\nserver: {rate: 4/fortnight}\n", `-:2:16: rate "4/fortnight"`},
		{[]string{"-"}, "", "-:1:1: empty; a scenario needs at least a server and clients"},
		{[]string{"-"}, strings.Replace(good, "processes: 1", "arrivals: {trace: testdata/trace.txt}", 1), "stdin"},
		{[]string{"-", "-"}, good, "- can be read once; write the name of a file"},
		{[]string{"emr", "-"}, "name: emr\n" + good, "-:1:7: emr is the name of a built-in scenario"},
		{[]string{"-"}, good + "#" + strings.Repeat("x", maxFile), "-:1:1: longer than 1 MiB"},
	} {
		s, err := Read(c.names, strings.NewReader(c.text))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = s[0].Name
		}
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("Read(%q) of %.60q = %s, want %s", c.names, c.text, got, c.want)
		}
	}
	if files := Files([]string{"emr", "-", "x.yaml"}); len(files) != 1 || files[0] != "x.yaml" {
		t.Errorf("the files are %q, want x.yaml", files)
	}
}

// TestStandardInputFails: what cannot be read is said, and endless input is not read on.
func TestStandardInputFails(t *testing.T) {
	_, err := Read([]string{"-"}, iotest.ErrReader(errors.New("no more")))
	if err == nil || err.Error() != "scenario: standard input: no more" {
		t.Errorf("a broken pipe: %v", err)
	}
	if _, err := Read([]string{"-"}, zeros{}); err == nil || !strings.Contains(err.Error(), "longer than 1 MiB") {
		t.Errorf("endless input: %v", err)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
