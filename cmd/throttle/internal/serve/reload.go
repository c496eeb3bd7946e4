package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/throttleotel"
)

// loaded is what the latest reading of the files came to.
type loaded struct {
	texts   []config.Named // as they were read
	version string         // of the files in use
	good    time.Time      // when they were read last
	err     error          // why the files are not in use as they are now
}

// read reads the files for the first time.
func (p *program) read(stdin io.Reader) error {
	all, err := config.Read(p.names, stdin)
	if err != nil {
		return usage.Errorf("serve: %v", err)
	}
	if p.began, err = config.Parse(all, variables); err != nil {
		return err
	}
	p.loaded.Store(&loaded{texts: all, version: digest(all), good: time.Now()})
	return nil
}

// digest names the content of files.
func digest(all []config.Named) string {
	h := sha256.New()
	for _, one := range all {
		_, _ = h.Write(one.Data) // it never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// reload reads the files again, and the rules. A bad file is refused whole.
func (p *program) reload(ctx context.Context) error {
	p.reloading.Lock()
	err := p.reloadFiles(true)
	p.reloading.Unlock() // a page of rules may take long, and the files change meanwhile
	return errors.Join(err, p.sources.refresh(ctx), p.reloadEgress())
}

// reloadFiles reads the files again, if they changed, were refused, or always. p.reloading
// is held.
func (p *program) reloadFiles(always bool) error {
	for _, name := range p.names {
		if name == "-" {
			return exit.Failf("serve: standard input was read once; restart to change it")
		}
	}
	last := p.loaded.Load()
	all, err := config.Read(p.names, nil)
	if err == nil && !always && last.err == nil && same(all, last.texts) { // what is refused may pass later, as with a certificate that comes
		return nil
	}
	now := &loaded{texts: all, version: last.version, good: last.good}
	if err == nil {
		err = p.use(all)
	}
	if now.err = err; err == nil {
		now.version, now.good = digest(all), time.Now()
	}
	p.loaded.Store(now)
	return err
}

func same(a, b []config.Named) bool {
	return slices.EqualFunc(a, b, func(a, b config.Named) bool { return bytes.Equal(a.Data, b.Data) })
}

// use puts the files into use, as far as that can be done while the program runs.
func (p *program) use(all []config.Named) error {
	f, err := config.Parse(all, variables)
	if err == nil {
		err = cmp.Or(Check(f), checkWritable(f)) // so that the next start does not refuse what was accepted
	}
	if err != nil {
		return err
	}
	if p.gateway != nil && f.Gateway != nil {
		to, err := routes(f)
		if err == nil {
			err = ofGateway(f, p.gateway.Swap(to))
		}
		if err != nil {
			return err
		}
	}
	setLevel(f, p.level)
	if cold := config.Cold(p.began, f); len(cold) > 0 {
		p.log.Warn("restart to put this into use: " + strings.Join(cold, ", "))
	}
	return nil
}

// state is the state of the files, for the metrics.
func (p *program) state() throttleotel.Config {
	l := p.loaded.Load()
	return throttleotel.Config{Version: l.version, OK: l.err == nil, Age: time.Since(l.good)}
}

// placed is the error with a place in a file that err is, nil if it is none.
func placed(err error) *tree.Error {
	flaw := (*tree.Error)(nil)
	if errors.As(err, &flaw) {
		return flaw
	}
	return nil
}
