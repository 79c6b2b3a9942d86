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
	saving := []string{"run", "merge"}
	s.Add(service.SettingList{
		{Name: "CONFIG_FILE", Value: service.String(&c.file), Help: "file of a test to start at once"},
		{Name: "CONFIG_DIR", Value: service.String(&c.folder),
			Help: `folder of the tests that {"config":"name"} starts, and of traces`},
		{Name: "OUT", Value: service.String(&c.outputs.Out), Commands: saving,
			Help: "with run and merge: file to write the result to as JSON"},
		{Name: "REPORT", Value: service.String(&c.outputs.Report), Commands: saving,
			Help: "with run and merge: file to write the result to as an HTML page"},
		{Name: "OUTCOMES", Value: service.String(&c.outputs.Outcomes), Commands: saving[:1],
			Help: "with run: file to write a line per request to: when it was due, sent and answered, and its status"},
		{Name: "SHOW_VALUES", Default: "false", Value: service.Bool(&c.drive.ShowValues), Commands: saving[:1],
			Help: "with run: true: result, report, summary and log contain the values of query, fields and body; false: *** " +
				"instead, since they are shared"},
		{Name: "EVENT_LOOPS", Default: "0", Value: service.Int(&c.drive.Loops, 0, drive.LoopsMax()),
			Help: "number of event loops; 0: chosen by the rate"},
		{Name: "SOURCE_ADDRESSES", Value: service.Func(&c.drive.Sources, drive.SourcesSyntax, drive.ParseSources),
			Help: "local addresses to connect from, in turn; empty: the system's choice; for more connections to a loopback " +
				"target than one address has ports, as many addresses of 127.0.0.0/8 as needed"},
		{Name: "TARGET_CA_FILE", Value: service.Func(&c.drive.CAFile, "a PEM file of certificates", authorities),
			Help: "PEM file of the authorities that signed the certificates of https targets; empty: the system's"},
	})
}

func authorities(file string) (string, error) {
	if _, err := certs.Pool(file); err != nil {
		return "", fmt.Errorf("cannot be used: %w", err)
	}
	return file, nil
}

func (c *config) run(ctx context.Context, e *service.Env) error {
	c.outputs.Summary = e.Stdout
	c.drive.Metrics, c.drive.Logger = drive.NewMetrics(e.Metrics, drive.LoopsMax()), e.Logger
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
