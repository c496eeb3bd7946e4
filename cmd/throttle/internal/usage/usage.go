// Package usage parses the flags of commands, and holds the error of wrong usage.
package usage

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/internal/near"
)

// ParseFlags parses flags that may stand before, between and after names, and
// returns the names. What follows -- is names. A text is given once. The error is flag.ErrHelp or an
// Error.
func ParseFlags(flags *flag.FlagSet, args []string) (names []string, err error) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.VisitAll(sayWhatIsRight)
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, Errorf("%s: %s", flags.Name(), wrong(flags, err))
		}
		if name := givenTwice(flags); name != "" {
			return nil, Errorf("%s: flag -%s is given twice, with different values; write it once; run 'throttle %s -h'", flags.Name(), name, flags.Name())
		}
		rest := flags.Args()
		if len(rest) == 0 {
			return names, nil
		}
		if read := len(args) - len(rest); read > 0 && args[read-1] == "--" {
			return append(names, rest...), nil
		}
		names, args = append(names, rest[0]), rest[1:]
	}
}

// wrong says what is wrong with a flag, and what would be right.
func wrong(flags *flag.FlagSet, err error) string {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		text = "flag -" + words.Quote(name) + " is not known"
		var known []string
		flags.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		if likely := near.Of(name, known); likely != "" {
			return text + "; did you mean -" + likely + "?"
		}
	}
	return text + "; run 'throttle " + flags.Name() + " -h'"
}

// worded is a Value whose error says what would be right, where that of package flag says
// "parse error".
type worded struct {
	flag.Value
	want string
}

func (w worded) Set(text string) error {
	if w.Value.Set(text) != nil {
		return errors.New("want " + w.want)
	}
	return nil
}

// IsBoolFlag reports whether the flag can stand without a value.
func (w worded) IsBoolFlag() bool {
	b, ok := w.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// filled is a Value that is no empty text, which is that of a variable that is not set.
type filled struct {
	flag.Value
	given, other bool // it was set; to another text before
}

func (f *filled) Set(text string) error {
	if text == "" {
		return errors.New("is empty, as by a variable that is not set; write a value, or leave it out")
	}
	f.other = f.other || f.given && f.String() != text
	f.given = true
	return f.Value.Set(text)
}

// givenTwice is the name of a flag that got two texts, of which only the latter would count, as of
// two -host; empty if there is none. A number may replace another.
func givenTwice(flags *flag.FlagSet) (name string) {
	flags.Visit(func(f *flag.Flag) {
		if v, ok := f.Value.(*filled); ok && v.other {
			name = f.Name
		}
	})
	return name
}

// sayWhatIsRight words the error of a flag of one of the types of package flag.
func sayWhatIsRight(f *flag.Flag) {
	g, ok := f.Value.(flag.Getter)
	if !ok {
		return
	}
	want := ""
	switch g.Get().(type) {
	case time.Duration:
		want = "a duration such as 5s, 250ms or 1m30s"
	case int, int64:
		want = "a whole number below 2^63, such as 20"
	case uint, uint64:
		want = "a whole number from 0 to 2^64-1, such as 20"
	case float64:
		want = "a number such as 20 or 0.5"
	case bool:
		want = "true or false"
	case string:
		f.Value = &filled{Value: f.Value}
		return
	default:
		return
	}
	f.Value = worded{f.Value, want}
}

// Help writes help if err, from ParseFlags, is that it was asked for, and else
// returns err.
func Help(err error, help string, stdout io.Writer) error {
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.WriteString(stdout, help)
	}
	return err
}

// An Error is wrong usage or input: exit code 2.
type Error string

// Errorf returns an Error.
func Errorf(format string, a ...any) error { return Error(fmt.Sprintf(format, a...)) }

func (e Error) Error() string { return string(e) }
