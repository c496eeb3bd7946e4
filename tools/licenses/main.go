// Command licenses writes the licences of what the program throttle links on any
// platform to standard output, in the form of
// cmd/throttle/internal/version/licenses.txt. Run it in the folder tools.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

const (
	ours    = "github.com/throttle-go/throttle"
	program = "../cmd/throttle"
	uplot   = program + "/internal/report/uplot"
)

// platforms are those whose dependencies are looked at.
var platforms = []string{"darwin", "freebsd", "linux", "windows"}

// isLicense tells the names of the files that must come with a program.
var isLicense = regexp.MustCompile(`(?i)^(LICEN[CS]E|COPYING|NOTICE|PATENTS)`)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func write(w io.Writer) error {
	known, err := assets.DefaultClassifier()
	if err != nil {
		return err
	}
	folders, err := linked()
	if err != nil {
		return err
	}
	for _, module := range slices.Sorted(maps.Keys(folders)) {
		if err := entry(w, known, module, "-", folders[module]); err != nil {
			return err
		}
	}
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return err
	}
	if err := entry(w, known, "std", "-", []string{strings.TrimSpace(root)}); err != nil {
		return err
	}
	version, err := uplotVersion()
	if err != nil {
		return err
	}
	return entry(w, known, "uPlot", version, []string{uplot})
}

// entry writes the licence files of one part.
func entry(w io.Writer, known *classifier.Classifier, name, version string, folders []string) error {
	var names []string
	var texts bytes.Buffer
	for _, folder := range folders {
		files, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, f := range files {
			if f.IsDir() || !isLicense.MatchString(f.Name()) || filepath.Ext(f.Name()) == ".go" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, f.Name()))
			if err != nil {
				return err
			}
			names = append(names, classify(known, text)...)
			fmt.Fprintf(&texts, "%s\n", bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if bytes.Contains(texts.Bytes(), []byte("\n==== ")) {
		return fmt.Errorf("%s: a line of its licence looks like the head of a part; change the form of the file", name)
	}
	if len(names) == 0 {
		return fmt.Errorf("%s: no licence is recognised in %q; read it, and decide", name, folders)
	}
	_, err := fmt.Fprintf(w, "==== %s %s %s\n%s", name, version, strings.Join(names, "+"), &texts)
	return err
}

// classify returns the SPDX names of the licences in a text.
func classify(known *classifier.Classifier, text []byte) (names []string) {
	for _, m := range known.Match(text).Matches {
		if m.MatchType == "License" {
			names = append(names, m.Name)
		}
	}
	return names
}

// linked returns the modules that the program links, each with the folders,
// from its root down to its packages, that may hold a licence.
func linked() (map[string][]string, error) {
	found := map[string][]string{}
	for _, platform := range platforms {
		text, err := output("env", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+platform, "go", "-C", program, "list", "-deps",
			"-f", "{{with .Module}}{{.Path}}\t{{.Dir}}\t{{$.Dir}}{{end}}", ".")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			words := strings.Split(strings.TrimSpace(line), "\t")
			if len(words) != 3 {
				continue // of the standard library
			}
			module, root, folder := words[0], words[1], words[2]
			if module == ours || strings.HasPrefix(module, ours+"/") {
				root, folder = "..", ".." // one licence for all of ours
			}
			for ; ; folder = filepath.Dir(folder) {
				found[module] = append(found[module], folder)
				if folder == root {
					break
				}
			}
		}
	}
	for module, folders := range found {
		slices.Sort(folders)
		found[module] = slices.Compact(folders)
	}
	return found, nil
}

// uplotVersion reads the version out of the first line of the script.
func uplotVersion() (string, error) {
	text, err := os.ReadFile(uplot + "/uPlot.iife.min.js")
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`^/\*!.*\(v([0-9.]+)\)`).FindSubmatch(text)
	if found == nil {
		return "", errors.New("uPlot.iife.min.js does not say its version in its first line")
	}
	return "v" + string(found[1]), nil
}

// output runs a command and returns what it writes.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(text), nil
}
