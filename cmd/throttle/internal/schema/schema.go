// Package schema is the command 'throttle schema': the JSON schema of the files of
// 'throttle serve'.
package schema

import (
	"context"
	"encoding/json"
	"flag"
	"io"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
)

const help = `throttle schema prints the JSON schema of the files of 'throttle serve'.

Usage: throttle schema [rules]

With 'rules' it is that of files of rules.
Editors then complete and check such a file. The first line names the schema:

  # yaml-language-server: $schema=throttle.schema.json

Examples:
  throttle schema > throttle.schema.json
  throttle schema rules > rules.schema.json
`

// Run prints the schema.
func Run(_ context.Context, args []string, _ io.Reader, stdout, _ io.Writer) error {
	names, err := usage.ParseFlags(flag.NewFlagSet("schema", flag.ContinueOnError), args)
	switch {
	case err != nil:
		return usage.Help(err, help, stdout)
	case len(names) > 1 || len(names) == 1 && names[0] != "rules":
		return usage.Errorf("schema: %s is not known; write 'throttle schema' or 'throttle schema rules'", words.Quote(names[len(names)-1]))
	}
	text, err := config.Schema()
	if len(names) == 1 {
		text, err = json.MarshalIndent(rules.Schema(), "", " ")
		text = append(text, '\n')
	}
	if err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}
