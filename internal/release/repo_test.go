package release

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/throttle-go/throttle"

// tag is the tag of a version of the module in a folder.
func tag(folder, version string) string {
	if folder == "." {
		return version
	}
	return folder + "/" + version
}

// modulePath is the path of the module in a folder.
func modulePath(folder string) string {
	return strings.TrimSuffix(module+"/"+folder, "/.")
}

// A repo is a repository with the files of this one.
type repo struct {
	t   *testing.T
	dir string
	env []string
}

// newRepo commits the files of this repository as they are, with changes that are
// not committed here, on main of a repository of its own.
func newRepo(t *testing.T) *repo {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &repo{t: t, dir: filepath.Join(t.TempDir(), "repo")}
	r.env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com")
	if err := os.Mkdir(r.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r.git("init", "--quiet", "--initial-branch", "main")
	r.git("--work-tree", root, "add", "--all")
	r.git("commit", "--quiet", "--message", "All")
	r.git("reset", "--quiet", "--hard")
	return r
}

// run runs a command in the repository.
func (r *repo) run(env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), name, args...)
	cmd.Dir, cmd.Env = r.dir, append(slices.Clip(r.env), env...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	text, err := r.run([]string{"GIT_DIR=" + filepath.Join(r.dir, ".git")}, "git", args...)
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, text)
	}
	return strings.TrimSpace(text)
}

// release runs scripts/release and returns what it writes and its exit code.
func (r *repo) release(args ...string) (string, int) {
	r.t.Helper()
	text, err := r.run(nil, "scripts/release", args...)
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return text, e.ExitCode()
	} else if err != nil {
		r.t.Fatal(err)
	}
	return text, 0
}

// edit replaces text in a file, which must be there.
func (r *repo) edit(name, old, with string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte(old)) {
		r.t.Fatalf("%s, %v: want %q in it", name, err, old)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(with), 1), 0o666); err != nil {
		r.t.Fatal(err)
	}
}

// published are the folders of go.work but for the private ones.
func (r *repo) published() (folders []string) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "go.work"))
	if err != nil {
		r.t.Fatal(err)
	}
	_, uses, _ := strings.Cut(string(text), "use (")
	uses, _, _ = strings.Cut(uses, ")")
	for _, folder := range strings.Fields(uses) {
		if folder = filepath.ToSlash(filepath.Clean(folder)); !slices.Contains(private, folder) {
			folders = append(folders, folder)
		}
	}
	if len(folders) < 2 {
		r.t.Fatalf("go.work has the published modules %q, want more", folders)
	}
	return folders
}

// proxy is the folder that pack fills, as the module proxy protocol lays it out.
func (r *repo) proxy() string { return filepath.Join(r.dir, "..", "packed", "cache", "download") }

// pack packs a version of the module in a folder as the go command does, out of
// the repository by its tags, and returns what a module proxy answers of it.
func (r *repo) pack(folder, version string) map[string]string {
	r.t.Helper()
	path := modulePath(folder)
	text, err := r.run([]string{
		"GOMODCACHE=" + filepath.Join(r.dir, "..", "packed"), "GOWORK=off", "GOFLAGS=-modcacherw",
		"GOPROXY=off", "GONOPROXY=" + module, "GONOSUMDB=" + module, "GOVCS=*:git",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + r.dir + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + module,
	}, "go", "mod", "download", path+"@"+version)
	if err != nil {
		r.t.Fatalf("go mod download %s@%s: %v\n%s", path, version, err, text)
	}
	files := map[string]string{"path": path, "version": version}
	for _, name := range []string{"list", version + ".info", version + ".mod", version + ".zip"} {
		text, err := os.ReadFile(filepath.Join(r.proxy(), path, "@v", name))
		if err != nil {
			r.t.Fatal(err)
		}
		files[strings.TrimPrefix(name, version+".")] = string(text)
	}
	return files
}

// A user is somebody on another machine: no module is there, and ours are found
// in a folder, which stands before the ordinary proxy.
type user struct {
	modules, bin string
	flags        string
	proxies      []string
}

func newUser(t *testing.T, r *repo) user {
	t.Helper()
	cmd := exec.Command("go", "env", "GOMODCACHE", "GOPROXY", "GOFLAGS")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	text, err := cmd.Output()
	env := strings.Split(string(text), "\n")
	if err != nil || len(env) < 3 {
		t.Fatalf("go env: %q, %v", text, err)
	}
	// What is in the module cache already is not downloaded again, but unpacked
	// and checked as if it was. With -trimpath what is built is in the build cache.
	proxies := []string{"file://" + r.proxy(), "file://" + filepath.Join(env[0], "cache", "download"), env[1]}
	return user{modules: t.TempDir(), bin: t.TempDir(), flags: env[2] + " -modcacherw -trimpath", proxies: proxies}
}

// in runs a command as the user in a folder.
func (u user) in(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOMODCACHE="+u.modules, "GOBIN="+u.bin, "GOFLAGS="+u.flags, "GOWORK=",
		"GOPROXY="+strings.Join(u.proxies, ","), "GONOPROXY=none", "GOPRIVATE=", "GONOSUMDB="+module)
	text, err := cmd.CombinedOutput()
	return string(text), err
}
