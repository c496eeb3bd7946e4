package tasks

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestJobs runs the script four times a day, with the program itself.
func TestJobs(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), ".")
	build.Dir = "../../cmd/throttle"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	for { // again, where a day ends meanwhile
		day := time.Now().In(berlin).YearDay()
		got := runJobs(t, bin, "memory:"+filepath.Join(t.TempDir(), "store"))
		if time.Now().In(berlin).YearDay() == day {
			says(t, 6, got)
			break
		}
	}
	job := exec.Command("./jobs.sh", "true")
	job.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "THROTTLE_STORE=memory:/dev/null")
	if err := job.Run(); err == nil || job.ProcessState.ExitCode() != 1 {
		t.Errorf("without a store: %v, want exit status 1", err)
	}
}

// runJobs runs a job four times and returns what was printed.
func runJobs(t *testing.T, bin, where string) string {
	t.Helper()
	var printed bytes.Buffer
	for range 4 {
		job := exec.Command("./jobs.sh", "echo", "the job runs")
		job.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "THROTTLE_STORE="+where)
		job.Stdout, job.Stderr = &printed, &printed
		if err := job.Run(); err != nil {
			t.Fatalf("%v\n%s", err, printed.Bytes())
		}
	}
	return printed.String()
}
