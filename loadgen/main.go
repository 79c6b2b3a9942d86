// Command loadgen sends requests when a profile says they are due, whether or not earlier
// ones were answered (open loop), and reports the outcomes.
//
//	loadgen run test.json           runs one test and prints the result
//	loadgen merge a.json b.json     merges the results of generators that shared a schedule
//	loadgen                         accepts tests over REST on port 8080
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"weir/internal/program/certs"
	"weir/internal/program/service"
	"weir/loadgen/control"
	"weir/loadgen/drive"
)

func main() {
	var c config
	service.Main(service.Program{
		Name: "loadgen", LogName: "LoadGenerator", Port: 8080,
		About:    "sends requests when they are due: loadgen [run FILE | merge FILE FILE…]",
		Settings: c.register,
		Commands: []string{"run", "merge"}, Reloads: []string{"certificates"},
		Run: c.run,
	})
}

type config struct {
	file, folder string
	outputs      control.Outputs
	drive        drive.Settings
}

func (c *config) register(s *service.Settings) {
	s.String(&c.file, "CONFIG_FILE", "", "file of a test to start at once")
	s.String(&c.folder, "CONFIG_DIR", "", `folder of the tests that {"config":"name"} starts, and of traces`)
	s.String(&c.outputs.Out, "OUT", "", "with run and merge: file to write the result to as JSON")
	s.String(&c.outputs.Report, "REPORT", "", "with run and merge: file to write the result to as an HTML page")
	s.String(&c.outputs.Outcomes, "OUTCOMES", "",
		"with run: file to write a line per request to: when it was due, sent and answered, and its status")
	s.Bool(&c.drive.ShowValues, "SHOW_VALUES", false,
		"with run: true: result, report, summary and log contain the values of query, fields and body; "+
			"false: *** instead, since they are shared")
	s.Int(&c.drive.Loops, "EVENT_LOOPS", 0, 0, drive.LoopsMax(), "number of event loops; 0: chosen by the rate")
	s.Func("SOURCE_ADDRESSES", "",
		"local addresses to connect from, in turn; empty: the system's choice; for more connections to a "+
			"loopback target than "+
			"one address has ports, as many addresses of 127.0.0.0/8 as needed", drive.SourcesAllowed, c.setSources)
	s.Func("TARGET_CA_FILE", "", "PEM file of the authorities that signed the certificates of https targets; "+
		"empty: the system's", "a PEM file of certificates", c.setAuthorities)
}

func (c *config) setSources(text string) (err error) {
	c.drive.Sources, err = drive.ParseSources(text)
	return err
}

func (c *config) setAuthorities(file string) error {
	c.drive.CAFile = file
	if _, err := certs.Pool(file); err != nil {
		return fmt.Errorf("cannot be used: %w", err)
	}
	return nil
}

func (c *config) run(ctx context.Context, e *service.Env) error {
	if lines := c.outputs.Outcomes; lines != "" && (len(e.Args) == 0 || e.Args[0] != "run") {
		return &service.SettingError{Name: "OUTCOMES", Value: lines, Problem: "is allowed only with run"}
	}
	if c.drive.ShowValues && (len(e.Args) == 0 || e.Args[0] != "run") {
		return &service.SettingError{Name: "SHOW_VALUES", Value: "true", Problem: "is allowed only with run"}
	}
	c.outputs.Summary = e.Stdout
	c.drive.Meters, c.drive.Logger = drive.NewMeters(e.Metrics, drive.LoopsMax()), e.Logger
	if len(e.Args) == 0 {
		return c.serve(ctx, e)
	}
	files := e.Args[1:]
	if e.Args[0] == "run" {
		return c.runFile(ctx, e, files)
	}
	if len(files) < 2 {
		return &service.UsageError{Problem: "merge needs at least two files"}
	}
	return control.Merge(files, c.outputs)
}

func (c *config) serve(ctx context.Context, e *service.Env) error {
	const problem = "is allowed only with run and merge"
	switch {
	case c.outputs.Out != "":
		return &service.SettingError{Name: "OUT", Value: c.outputs.Out, Problem: problem}
	case c.outputs.Report != "":
		return &service.SettingError{Name: "REPORT", Value: c.outputs.Report, Problem: problem}
	}
	if c.drive.CAFile != "" { // each test reads the file
		e.OnReload(func() error { _, err := certs.Pool(c.drive.CAFile); return err }, "certificates")
	}
	return control.New(c.drive, c.folder).Serve(ctx, e, c.file)
}

func (c *config) runFile(ctx context.Context, e *service.Env, files []string) error {
	file := c.file
	switch {
	case len(files) == 1:
		file = files[0]
	case len(files) > 1 || file == "":
		return &service.UsageError{Problem: "run needs one file, or none if CONFIG_FILE is set"}
	}
	display := control.NewDisplay(os.Stderr)
	c.drive.Logger = func(component string) *slog.Logger {
		return slog.New(display.Over(e.Logger(component).Handler()))
	}
	return control.New(c.drive, c.folder).Run(ctx, control.Command{File: file, Display: display, Outputs: c.outputs})
}
