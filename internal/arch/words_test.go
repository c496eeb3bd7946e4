package arch

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbiddenWords are what public docs do not say: words that few readers know,
// and phrases for which there is a plainer one (in flight, retried, called with,
// reset, subject to).
var forbiddenWords = regexp.MustCompile(
	`(?i)\b(lest|thus|(un)?heed(s|ed|ing)?|afresh|anew|for\s+want\s+of|whoever|under\s+way|made\s+again|is\s+told)\b`)

// calledWith is said of hooks and functions as "is called with".
var calledWith = regexp.MustCompile(`(?i)\bare\s+told\b`)

// personAsSubject finds, in a first sentence, who or what where a noun should be:
// caller, key, request.
var personAsSubject = regexp.MustCompile(
	`(?i)^(\S+: )?(what|who|whoever)\b|[:;] (what|who|whoever)\b|\b(for|of|by|to|from|with|than|as) who\b|^\S+ (is|are) (what|who)\b`)

// A comment is the doc comment of an exported name, or of a package.
type comment struct {
	name string // such as Guard.Timeout, or "package"
	text string
	pos  token.Position
}

// docComments are the doc comments of a file that go doc prints.
func docComments(fset *token.FileSet, f *ast.File) (all []comment) {
	add := func(name string, groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if g != nil {
				all = append(all, comment{name, g.Text(), fset.Position(g.Pos())})
				return
			}
		}
	}
	add("package", f.Doc)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if name := methodName(d); name != "" {
				add(name, d.Doc)
			}
		case *ast.GenDecl:
			if d.Lparen.IsValid() {
				add("group", d.Doc)
			}
			for _, s := range d.Specs {
				specComments(s, d.Doc, add)
			}
		}
	}
	return all
}

// methodName is the name of an exported function, or of an exported method of an
// exported type with the type before it; otherwise it is empty.
func methodName(d *ast.FuncDecl) string {
	if !d.Name.IsExported() {
		return ""
	}
	if d.Recv == nil {
		return d.Name.Name
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	if id, ok := typ.(*ast.Ident); ok && id.IsExported() {
		return id.Name + "." + d.Name.Name
	}
	return ""
}

// specComments adds the comments of a type, its exported fields and methods, or of
// constants and variables. outer is the comment of the declaration.
func specComments(s ast.Spec, outer *ast.CommentGroup, add func(string, ...*ast.CommentGroup)) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() {
				add(name.Name, s.Doc, s.Comment, outer)
			}
		}
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		add(s.Name.Name, s.Doc, outer)
		ast.Inspect(s.Type, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok {
				return true
			}
			for _, name := range field.Names {
				if name.IsExported() {
					add(s.Name.Name+"."+name.Name, field.Doc, field.Comment)
				}
			}
			return true
		})
	}
}

// eachComment calls f with every doc comment of the code of all modules, and the
// folder of its package.
func eachComment(t *testing.T, f func(pkg string, c comment)) {
	t.Helper()
	fset := token.NewFileSet()
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		file, err := parser.ParseFile(fset, s.path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range docComments(fset, file) {
			f(s.pkg, c)
		}
	}
}

// oddWords are the breaches of the rules of words in a doc comment.
func oddWords(c comment) (found []breach) {
	for _, rule := range []*regexp.Regexp{forbiddenWords, calledWith} {
		if word := rule.FindString(c.text); word != "" {
			found = append(found, breach{c.pos, "words", fmt.Sprintf("%s: %q: say it plainly", c.name, word)})
		}
	}
	if c.name == "group" {
		return found
	}
	first := new(doc.Package).Synopsis(c.text)
	if _, rest, ok := strings.Cut(first, " "); ok && strings.HasSuffix("."+c.name, "."+first[:len(first)-len(rest)-1]) {
		first = "It " + rest // Who and What may be names
	}
	if personAsSubject.MatchString(first) {
		found = append(found, breach{c.pos, "words", fmt.Sprintf(
			"%s: a noun or the verb should stand for who or what in %q", c.name, first)})
	}
	return found
}

// TestHouseWordsInComments: what go doc prints is understood at first reading.
func TestHouseWordsInComments(t *testing.T) {
	n := 0
	eachComment(t, func(_ string, c comment) {
		n++
		for _, b := range oddWords(c) {
			t.Error(b)
		}
	})
	if n < 1000 {
		t.Errorf("read %d doc comments; is this the root of the repository?", n)
	}
}

// TestHouseWordsInPages: the pages for users keep to the same words.
func TestHouseWordsInPages(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("found %d pages in docs (%v)", len(pages), err)
	}
	for _, page := range append(pages, "README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if os.IsNotExist(err) && path.Dir(page) == "." {
			continue // not written yet
		} else if err != nil {
			t.Fatal(err)
		}
		for _, at := range forbiddenWords.FindAllIndex(text, -1) {
			t.Errorf("%s:%d: %q: say it plainly", page, 1+lines(text[:at[0]]), text[at[0]:at[1]])
		}
	}
}

// fieldTerms are words by which a page is found; the first paragraph of each page
// for users has one.
var fieldTerms = regexp.MustCompile(`(?i)rate[\s-]limit|token\s+bucket|circuit\s+breaker|load\s+shedding|` +
	`admission\s+control|semaphore|backpressure|retr(y|ies)|\b429\b|shaper|prefetch|concurrency\s+limit|backoff|throttled`)

// firstParagraph is that of a Markdown page, without its title and without code.
func firstParagraph(page string) string {
	for part := range strings.SplitSeq(codeInMarkdown.ReplaceAllString(page, ""), "\n\n") {
		if part = strings.TrimSpace(part); part != "" && !strings.HasPrefix(part, "#") {
			return part
		}
	}
	return ""
}

// TestHouseTermsInPages: a search for the standard term finds the page.
func TestHouseTermsInPages(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("found %d pages in docs (%v)", len(pages), err)
	}
	for _, page := range append(pages, "README.md") {
		if page == "docs/releasing.md" {
			continue // for maintainers
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if first := firstParagraph(string(text)); !fieldTerms.MatchString(first) {
			t.Errorf("%s: no standard term in the first paragraph: %q", page, first)
		}
	}
}

// standardTerms are the words of the field that must stand where their thing is
// described, by the folder of the package and the name.
var standardTerms = []struct {
	pkg   string
	name  string
	terms string // all of these, separated by commas
}{
	{".", "package", "rate limiter"},
	{".", "Throttle.Weights", "weighted fair queueing"},
	{".", "Throttle.Budget", "retry budget"},
	{".", "Throttle.MaxInFlight", "concurrency limit"},
	{".", "Throttle.MaxWaiting", "backpressure"},
	{".", "Fleet", "distributed"},
	{"pace", "package", "rate limiter"},
	{"pace", "Budget", "retry budget"},
	{"pace", "Jitter", "jitter,thundering herd"},
	{"limit", "package", "rate limiting"},
	{"fit", "package", "rate limiter,token bucket,concurrency limit"},
	{"load", "package", "concurrency limit,load shedding"},
	{"store", "package", "rate limiting,circuit breaker"},
	{"store", "Guard", "timeout,circuit breaker,fallback"},
	{"store", "Guard.MaxCalls", "bulkhead"},
	{"store", "InFlight", "semaphore,bulkhead"},
	{"store", "Leases", "prefetch"},
	{"memory", "package", "rate limit"},
	{"throttleredis", "package", "distributed,rate limit"},
	{"throttlesql", "package", "distributed,rate limit"},
	{"admit", "package", "admission control,backpressure"},
	{"admit", "Control", "admission control,load shedding"},
	{"admit", "Queue", "shaper"},
	{"admit", "Shedder", "load shedding,concurrency limit"},
	{"admit", "Control.Spread", "jitter,thundering herd"},
	{"throttlehttp", "package", "rate limiting"},
	{"throttlehttp", "Handler", "rate limiting,admission control"},
	{"throttlehttp", "Transport", "rate-limited,retry"},
	{"throttlegrpc", "package", "rate limiting"},
	{"throttlegrpc", "Server", "admission control"},
	{"throttleenvoy", "package", "rate limit"},
	{"throttleenvoy", "Service", "admission control"},
	{"throttleaws", "package", "rate limit"},
}

// missingTerms are the terms, separated by commas, that a text does not have. Case,
// line breaks and the ending of a word do not count.
func missingTerms(text, terms string) (missing []string) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for term := range strings.SplitSeq(terms, ",") {
		if !strings.Contains(text, term) {
			missing = append(missing, term)
		}
	}
	return missing
}

// TestHouseStandardTerms: a thing is found by the word that the field has for it.
func TestHouseStandardTerms(t *testing.T) {
	docs := map[string]string{} // by the folder of the package and the name
	eachComment(t, func(pkg string, c comment) { docs[pkg+" "+c.name] += c.text + "\n" })
	for _, s := range standardTerms {
		if missing := missingTerms(docs[s.pkg+" "+s.name], s.terms); len(missing) > 0 {
			t.Errorf("the doc comment of %s in %s does not say %q", s.name, s.pkg, missing)
		}
	}
}

func TestHouseWordsBite(t *testing.T) {
	for first, want := range map[string]int{
		"F is here.":                                0,
		"F reports what is left.":                   0,
		"F calls g with the caller who asked.":      0,
		"What is taken is charged.":                 1,
		"F: what is left.":                          1,
		"F is what is left.":                        1,
		"F tells: who waits is refused.":            1,
		"F gives back what was taken for who left.": 1,
		"F begins anew.":                            1,
		"F is\n// under way, lest g is told.":       1,
		"F does. Its hooks are\n// told all.":       1,
		"F reads Thusly and Unheeding.":             1,
		"F does. What comes after may begin so.":    0,
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", "package x\n\n// "+first+"\nfunc F() {}\n", parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, c := range docComments(fset, f) {
			found += len(oddWords(c))
		}
		if found != want {
			t.Errorf("a comment %q has %d breaches, want %d", first, found, want)
		}
	}
	if got := firstParagraph("# Rate limiter\n\n```\nretry\n```\n\nIt is.\n\nA rate limiter.\n"); got != "It is." || fieldTerms.MatchString(got) {
		t.Errorf("firstParagraph = %q, want one without a term", got)
	}
	if got := missingTerms("A Circuit\nbreaker.", "circuit breaker,timeout"); len(got) != 1 || got[0] != "timeout" {
		t.Errorf("missingTerms = %q, want the timeout", got)
	}
	const src = "// Package x is.\npackage x\n\n// T is.\ntype T struct {\n\t// F is.\n\tF, g int\n}\n\n// M is.\nfunc (t *T) M() {}\n\n" +
		"// I is.\ntype I interface {\n\t// N is.\n\tN()\n}\n\n// All.\nconst (\n\t// A is.\n\tA = 1\n\tB = 2 // B is.\n\tc = 3 // c is.\n)\n\n// h is.\nfunc h() {}\n"
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range docComments(fset, f) {
		names = append(names, c.name)
	}
	if got, want := strings.Join(names, " "), "package T T.F T.M I I.N group A B"; got != want {
		t.Errorf("the doc comments are those of %s, want %s", got, want)
	}
}
