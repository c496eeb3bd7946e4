package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// snippets are small packages. Each line that breaks a rule ends in the mark
// "// BAD" and the names of the rules; what has no mark must pass.
var snippets = []struct{ name, pkg, src string }{
	{"clock", "pace", `
import "time"
var t = time.Now() // BAD clock
func f() time.Duration { return time.Since(t) + time.Until(t) } // BAD clock clock
func g() { time.Sleep(1) } // BAD clock
func h() (any, any) { return time.After(1), time.Tick(1) } // BAD clock clock
func i() any { return time.AfterFunc(1, g) } // BAD clock
func j() (any, any) { return time.NewTimer(1), time.NewTicker(1) } // BAD clock clock`},
	{"clock behind a renamed import", "limit", `
import tick "time"
func f() tick.Time { return tick.Now() } // BAD clock`},
	{"clock behind a dot import", "signal", `
import . "time"
func f() Time { return Now() } // BAD clock`},
	{"clock behind a variable, a value, a field, a parenthesis", "sim", `
import "time"
var now = time.Now // BAD clock
type clock struct { read func() time.Time }
var c = clock{read: time.Now} // BAD clock
func f() time.Time { return now().Add(1) }
func g(read func() time.Time) { g((time.Now)) } // BAD clock`},
	{"environment", "sim", `
import "time"
func f() time.Time { return time.Date(1, 1, 1, 1, 1, 1, 1, time.Local) } // BAD environment
func g() { time.LoadLocation("Europe/Paris") } // BAD environment`},
	{"global random source", "pace", `
import "math/rand/v2"
func f() int { return rand.IntN(5) + rand.N(3) } // BAD random random
func g() float64 { var draw = rand.Float64; return draw() } // BAD random`},
	{"global random source of the first version, renamed", "pace", `
import dice "math/rand"
func f() int { dice.Seed(1); return dice.Intn(6) } // BAD random random
var roll = dice.Perm // BAD random`},
	{"go statement", "sim", `
func f() { go f() } // BAD go
func g() {
	go func() { g() }() // BAD go
}`},
	{"a shell in the place of a law", "load", `
import "sync" // BAD import
import "github.com/throttle-go/throttle/pace" // BAD import
import "github.com/throttle-go/throttle/internal/list"
import "time"
type Work struct { place list.Node[Work]; mu sync.Mutex }
type turn struct { told chan struct{} } // BAD channel
func f() time.Time { return time.Now() } // BAD clock
func g(m map[string]int) { for range m { go g(nil) } } // BAD map order go
var _ pace.Controller`},
	{"channels", "pace", `
type pipe chan int // BAD channel
func f(c pipe) int { return <-c } // BAD channel
func g(c pipe) { c <- 1 } // BAD channel
func h() { select {} } // BAD channel
func i(c pipe) { for range c {} } // BAD channel`},
	{"order of maps", "sim", `
import "maps"
type table map[string]int
func f(m map[string]int) { for range m {} } // BAD map order
func g(m table) { for k, v := range m { _, _ = k, v } } // BAD map order
func h[M ~map[K]V, K comparable, V any](m M) { for range m {} } // BAD map order
func i(m table) { for range maps.Keys(m) {} } // BAD map order
var values = maps.Values[table] // BAD map order`},
	{"state", "pace", `
import "strings"
var n int
var list = []int{1}
var m = map[string]int{}
var s struct{ a [3]int }
var b strings.Builder
func f() { n++ } // BAD state
func g() { n, list = 1, nil } // BAD state state
func h() { list[0] = 2 } // BAD state
func i() { m["a"] += 1 } // BAD state
func j() { (s).a[1]-- } // BAD state
func k() *int { return &n } // BAD state
func l() { for n = range 3 {} } // BAD state
func o() { delete(m, "a"); clear(list); copy(s.a[:], list) } // BAD state state state
func p() { b.WriteString("a") } // BAD state
var q = b.WriteByte // BAD state
var r = func() int { n = 5; return 5 }() // BAD state
func init() {} // BAD state`},
	{"state of another package, behind an alias and an interface", "signal", `
import u "unicode"
import "github.com/throttle-go/throttle/pace"
var shared pace.Controller = pace.All(nil)
func g() { u.Digit = nil } // BAD state
func h() { shared = nil } // BAD state
func i(r pace.Request) { shared.Start(r.Since, r) } // BAD state`},
	{"output", "limit", `
import "fmt"
func f() { fmt.Println("a") } // BAD output
var say = fmt.Printf // BAD output`},
	{"imports of the standard library", "limit", `
import "sync" // BAD import
import _ "sync/atomic" // BAD import
import ctx "context" // BAD import
import . "net/http" // BAD import
import (
	"crypto/rand" // BAD import
	"log/slog" // BAD import
	"os" // BAD import
	"os/signal" // BAD import
	"runtime" // BAD import
	"syscall" // BAD import
	"unsafe" // BAD import
	"C" // BAD import
	"math"
)
var pi = math.Pi`},
	{"imports of ours", "pace", `
import "github.com/throttle-go/throttle/limit"
import s "github.com/throttle-go/throttle/signal" // BAD import
import _ "github.com/throttle-go/throttle" // BAD import
import _ "github.com/throttle-go/throttle/nowhere" // BAD import
import _ "github.com/throttle-gopher/throttle" // BAD import
import _ "golang.org/x/time/rate" // BAD import`},
	{"assembly and build constraints", "limit", `
//go:build linux // BAD build
func f() int // BAD build`},
	{"what does not compile", "limit", `
var a int = "b" // BAD types`},
	{"clean", "sim", `
import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/pace"
	_ "github.com/throttle-go/throttle/signal"
)
var ErrOdd = errors.New("odd")
var zeros = regexp.MustCompile("^0+$")
var names = map[string]int{"a": 1}
var start = time.Unix(0, 0).Add(time.Second)
var _ pace.Controller = pace.All(nil)
type clock struct{ now int }
func (c *clock) Now() int { c.now++; return c.now } // a name is no crime
func Sleep(d time.Duration) time.Time { return start.Add(d).UTC() }
func f(seed uint64) int {
	c, names, list := clock{}, maps.Clone(names), []int{3, 4}
	names["b"] = len(ErrOdd.Error()) + c.Now()
	list[0] = 1
	sum := rand.New(rand.NewPCG(seed, 1)).IntN(5)
	for _, k := range slices.Sorted(maps.Keys(names)) { sum += names[k] }
	for i, v := range list { sum += i * v }
	if zeros.MatchString(fmt.Sprint(sum)) { clear(names) }
	Sleep(time.Second)
	return sum
}
func g(_ limit.Limit) {}`},
}

// marks are the breaches that a snippet names, as "file:line rule".
func marks(file, src string) (want []string) {
	for i, line := range strings.Split(src, "\n") {
		_, rules, _ := strings.Cut(line, "// BAD ")
		rules = strings.ReplaceAll(rules, "map order", "map-order")
		for _, rule := range strings.Fields(rules) {
			want = append(want, fmt.Sprintf("%s:%d %s", file, i+1, strings.ReplaceAll(rule, "-", " ")))
		}
	}
	return want
}

func TestPurityBites(t *testing.T) {
	p := onePurist()
	for _, snippet := range snippets {
		t.Run(snippet.name, func(t *testing.T) {
			file := path.Join(snippet.pkg, strings.ReplaceAll(snippet.name, " ", "_")+".go")
			src := "package x; " + snippet.src
			f, err := parser.ParseFile(p.fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			found := p.check(snippet.pkg, []*ast.File{f})
			for _, b := range found {
				got = append(got, fmt.Sprintf("%s:%d %s", b.pos.Filename, b.pos.Line, b.rule))
			}
			want := marks(file, src)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("check found\n\t%s\nwant\n\t%s\nin full: %v", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"), found)
			}
		})
	}
}

// rows say of each package what of ours its code may import, and must not: the
// table of the layout once more, so that a change of one alone is noticed. The
// root is "throttle".
var rows = []struct{ pkg, may, mayNot string }{
	{"limit", "", "load pace memory store throttle internal/list internal/chart"},
	{"load", "internal/list", "limit pace sim store throttle rules"},
	{"fit", "limit", "load pace sim signal store throttle internal/list"},
	{"pace", "limit load pace/internal/schedule", "pace/peers signal sim store memory throttle internal/list"},
	{"pace/peers", "pace limit load pace/internal/schedule", "signal sim store throttle"},
	{"signal", "pace", "limit load pace/peers sim store throttle throttlehttp"},
	{"sim", "limit load pace pace/peers signal", "store memory throttle admit rules internal/chart pace/internal/schedule"},
	{"sim/survey", "sim limit pace", "load pace/peers signal store memory throttle"},
	{"memory", "limit", "store throttle load pace throttleredis throttlesql throttletest"},
	{"throttleredis", "limit", "store memory throttle throttlesql throttletest load"},
	{"throttlesql", "limit", "store memory throttle throttleredis throttletest load"},
	{"throttletest", "limit", "store memory throttle throttleredis throttlesql"},
	{"store", "limit memory internal/list", "throttle load pace rules admit throttleredis throttlesql throttletest"},
	{"throttle", "store limit load pace signal sim internal/list", "memory admit rules throttlehttp throttleredis throttlesql autosleeper"},
	{"autosleeper", "throttle pace pace/peers", "store admit rules throttlehttp"},
	{"worker", "throttle load pace", "store admit rules throttlehttp internal/list"},
	{"rules", "store limit load internal/glob internal/links internal/near", "throttle admit memory pace throttlehttp throttleredis"},
	{"admit", "store memory rules limit load signal internal/list", "throttle pace sim throttlehttp throttleredis throttlesql"},
	{"throttlehttp", "throttle admit rules store limit load pace signal", "memory throttleredis throttlesql throttlegrpc throttletest autosleeper"},
	{"throttlegrpc", "throttle admit rules store limit load pace signal", "memory throttleredis throttlesql throttlehttp"},
	{"throttleenvoy", "throttle admit rules store limit load pace signal throttleenvoy/internal/assign", "memory throttleredis throttlesql throttlehttp throttlegrpc"},
	{"throttleenvoy/internal/assign", "limit", "store rules admit throttle load memory throttleenvoy"},
	{"throttleaws", "throttle admit rules store limit load pace signal", "memory throttleredis throttlesql throttlehttp"},
	{"throttleotel", "throttle admit rules store load pace throttleredis throttlesql", "memory throttlehttp signal limit throttlegrpc throttleaws"},
	{"throttlepage", "throttle load pace", "throttlehttp admit rules store signal memory cmd/throttle"},
	{"internal/list", "", "limit load store throttle"},
	{"internal/chart", "", "limit sim throttle"},
	{"internal/glob", "", "limit rules throttle"},
	{"internal/links", "", "limit rules throttle"},
	{"internal/near", "", "limit rules throttle"},
	{"internal/timeline", "", "limit store throttle"},
	{"internal/arch", "", "limit throttle"},
	{"internal/bubble", "", "limit throttle"},
	{"internal/release", "", "limit throttle"},
	{"pace/internal/schedule", "", "pace limit load"},
}

// TestLayersBiteRows: each row of the table refuses what it should.
func TestLayersBiteRows(t *testing.T) {
	place := func(pkg string) string {
		if pkg == "throttle" {
			return "."
		}
		return pkg
	}
	seen := map[string]bool{}
	for _, row := range rows {
		from := source{pkg: place(row.pkg), module: "."}
		seen[from.pkg] = true
		for _, list := range []string{row.may, row.mayNot} {
			for _, pkg := range strings.Fields(list) {
				imported := strings.TrimSuffix(module+"/"+strings.TrimPrefix(place(pkg), "."), "/")
				why := forbidden(from, imported)
				if may := list == row.may; (why == "") != may {
					t.Errorf("%s imports %s: %q, want it allowed: %t", row.pkg, pkg, why, may)
				}
			}
		}
	}
	for pkg := range layers {
		if !seen[pkg] {
			t.Errorf("%s stands in the import table and in no row here", pkg)
		}
	}
}

func TestImplementationsBite(t *testing.T) {
	const src = `package store
func f(s Store) { switch s.(type) { case *memory.Store, error: case Leases: } }
func g(s any) bool { _, ok := s.(*Guard); _, odd := s.(interface{ Itself(any) bool }); return ok && odd }`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := implementationBreaches(fset, f); len(found) != 3 {
		t.Errorf("found %v, want 3 places", found)
	}
}

func TestLayersBite(t *testing.T) {
	const ours = module + "/"
	code := func(pkg string) source { return source{pkg: pkg, module: "."} }
	test := func(pkg string) source { return source{pkg: pkg, module: ".", test: true} }
	in := func(module, pkg string) source { return source{pkg: pkg, module: module} }
	for _, c := range []layerCase{
		{code("limit"), "strings", true},
		{code("limit"), "sync", false},
		{test("limit"), "sync", true},
		{code("pace"), ours + "limits", false},
		{code("signal"), "net/http", false},
		{code("sim"), ours + "internal/chart", false},
		{test("sim"), ours + "internal/chart", true},
		{test("sim"), module, true},
		{test("."), ours + "throttlehttp", true},
		{test("."), "github.com/stretchr/testify/require", false},
		{test("."), ours + "cmd/throttle", false},
		{test("."), ours + "bench/peers", false},
		{test("."), ours + "throttleotel", false},
		{test("memory"), ours + "throttletest", true},
		{code("unheard"), "fmt", false},
		{in("throttlegrpc", "throttlegrpc"), "google.golang.org/grpc", true},
		{in("throttlegrpc", "throttlegrpc"), ours + "throttlesql", false},
		{in("cmd/throttle", "cmd/throttle/inner"), ours + "cmd/throttle/other", true},
		{in("cmd/throttle", "cmd/throttle"), ours + "internal/chart", true},
		{in("bench", "bench"), ours + "pace/peers", true},
		{in("bench", "bench/peers"), ours + "cmd/throttle/inner", false},
		{in("examples", "examples"), ours + "cmd/throttle/inner", false},
		{in("examples", "examples"), ours + "throttleredis", true},
	} {
		c.check(t)
	}
}

// TestLayersBiteLoad: the laws of package load see neither those of others nor a
// shell, and only what must may see them.
func TestLayersBiteLoad(t *testing.T) {
	const ours = module + "/"
	for _, c := range []layerCase{
		{source{pkg: "pace", module: "."}, ours + "load", true},
		{source{pkg: "load", module: "."}, "time", true},
		{source{pkg: "load", module: "."}, "sync", false},
		{source{pkg: "load", module: "."}, "context", false},
		{source{pkg: "load", module: "."}, ours + "pace", false},
		{source{pkg: "load", module: "."}, ours + "limit", false},
		{source{pkg: "load", module: "."}, module, false},
		{source{pkg: "load", module: "."}, ours + "internal/list", true},
		{source{pkg: "load", module: "."}, ours + "internal/chart", false},
		{source{pkg: "limit", module: "."}, ours + "load", false},
		{source{pkg: "load", module: ".", test: true}, "sync", true},
		{source{pkg: "internal/list", module: "."}, ours + "limit", false},
		{source{pkg: "internal/list", module: "."}, "iter", true},
		{source{pkg: "internal/list", module: "."}, "sync", false},
		{source{pkg: ".", module: "."}, ours + "internal/list", true},
		{source{pkg: "limit", module: "."}, ours + "internal/list", false},
		{source{pkg: "rules", module: "."}, ours + "load", true},
		{source{pkg: "throttlehttp", module: "."}, ours + "load", true},
		{source{pkg: "throttleredis", module: "."}, ours + "load", false},
		{source{pkg: "signal", module: "."}, ours + "load", false},
	} {
		c.check(t)
	}
}

// layerCase is an import, and whether it is allowed.
type layerCase struct {
	from     source
	imported string
	ok       bool
}

func (c layerCase) check(t *testing.T) {
	t.Helper()
	fset := token.NewFileSet()
	src := fmt.Sprintf("package x\n\nimport alias %q\n", c.imported)
	f, err := parser.ParseFile(fset, c.from.pkg+"/x.go", src, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	if got := importBreaches(fset, c.from, f); (len(got) == 0) != c.ok {
		t.Errorf("importBreaches(%+v importing %s) = %v, want ok: %t", c.from, c.imported, got, c.ok)
	}
}
