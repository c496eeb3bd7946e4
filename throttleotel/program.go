package throttleotel

import (
	"time"
)

// Build is the version of a program, for [Metrics.Build].
type Build struct {
	// Version is that of the program, Go that of its compiler.
	Version, Go string
}

// Build observes the version of the program: 1, under both versions.
func (m *Metrics) Build(b Build) error {
	return register(m, "Build", "", &b, ofBuild, func(b *Build) Build { return *b })
}

var ofBuild = []reading[Build]{{
	upDown, "throttle.build.info", "", "1, under the versions of the program and of Go.",
	func(b Build, o observer) { o.count(1, keyVersion.String(b.Version), keyGo.String(b.Go)) },
}}

// Config is the state of a program's configuration, for [Metrics.Config].
type Config struct {
	// Version is the version in use. If empty, there is none.
	Version string
	// OK reports whether the latest reload of each source succeeded.
	OK bool
	// Age is how long ago the version in use was last confirmed.
	Age time.Duration
}

// Config observes the configuration of a program, made of one or several sources:
// read is called when a reader collects, from several goroutines.
func (m *Metrics) Config(name string, read func() Config) error {
	p := &read
	if read == nil {
		p = nil
	}
	return register(m, "Config", name, p, ofConfig, func(read *func() Config) Config { return (*read)() })
}

var ofConfig = []reading[Config]{
	{
		upDown, "throttle.config.info", "", "1, under the version of the configuration in use; absent before the first.",
		func(c Config, o observer) {
			if c.Version != "" {
				o.count(1, keyVersion.String(c.Version))
			}
		},
	},
	{
		gauge, "throttle.config.last_reload.successful", "", "1 if the latest reload of each source succeeded, else 0: the version before stays in use.",
		func(c Config, o observer) { o.number(float64(whether(c.OK))) },
	},
	{
		gauge, "throttle.config.age", "s", "Time since all sources confirmed the configuration in use; absent before the first.",
		func(c Config, o observer) {
			if c.Version != "" {
				o.time(c.Age)
			}
		},
	},
}
