package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Renderers is the private memory in bytes of each renderer process of the browser,
// by its pid: RssAnon and VmSwap of Linux, which is the memory footprint that the task
// manager of Chromium shows. A tab has one of these processes, or shares one with
// other tabs. It has all that the tab holds: JavaScript, the elements and their style,
// what is drawn, and the engine; the program itself, which all share, is not in it. The
// renderer of the browser's own bars is left out.
func (b *Browser) Renderers() map[int]int {
	b.Helper()
	ours, all := map[int]bool{chromedp.FromContext(b.Ctx).Browser.Process().Pid: true}, map[int]int{}
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for more := true; more; {                 // the children of those that are ours
		more = false
		for _, path := range paths {
			pid, _ := strconv.Atoi(filepath.Base(path))
			is, err := os.ReadFile(path + "/status")
			if err != nil || ours[pid] || !ours[field(is, "PPid:")] { // it may have ended
				continue
			}
			ours[pid], more = true, true
			line, _ := os.ReadFile(path + "/cmdline") // that of one that has ended is empty
			if bytes.Contains(line, []byte("--type=renderer")) && !bytes.Contains(line, []byte("--top-chrome-webui")) {
				all[pid] = (field(is, "RssAnon:") + field(is, "VmSwap:")) << 10
			}
		}
	}
	if len(all) == 0 {
		b.Fatal("the browser has no renderer process")
	}
	return all
}

// field is a number in /proc/PID/status; 0 if it is not there.
func field(status []byte, name string) (n int) {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}

// Unrecorded ends the records that Chromium keeps of the tab for chromedp in the renderer
// process: of requests, with up to 100 MB of their answers, of style and of elements. Only
// then is Renderers what the tab holds where nobody looks into it.
func (b *Browser) Unrecorded() {
	b.Helper()
	b.Do(chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		for _, end := range []cdp.Command[cdp.Empty, cdp.Empty]{network.Disable, css.Disable, dom.Disable} {
			if _, err := cdp.Call(ctx, to, end, cdp.Empty{}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Held counts the contents of a tab after a collection, with those of tabs that share
// its renderer process.
type Held struct {
	Nodes, Listeners int64   // of events
	Script           float64 // bytes of JavaScript, buffers among them
}

// Collect collects the garbage of the tab, and counts the rest.
func (b *Browser) Collect() (h Held) {
	b.Helper()
	b.Do(chromedp.Func(func(ctx context.Context, to *chromedp.Target) error {
		if _, err := cdp.Call(ctx, to, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return err
		}
		n, err := cdp.Call(ctx, to, memory.GetDOMCounters, cdp.Empty{})
		if err != nil {
			return err
		}
		s, err := cdp.Call(ctx, to, runtime.GetHeapUsage, cdp.Empty{})
		if err == nil {
			h = Held{n.Nodes, n.JsEventListeners, s.UsedSize + s.BackingStorageSize}
		}
		return err
	}))
	return h
}
