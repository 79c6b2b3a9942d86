// Command loadgen sends requests when a profile says they are due, whether or
// not earlier ones were answered, and says what that did to the target.
//
//	loadgen run test.json    runs one test and prints what came out
//	loadgen                  waits for tests over REST on port 8080
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"weir/internal/service"
	"weir/loadgen/control"
	"weir/loadgen/drive"
)

func main() {
	var c config
	service.Main(service.Program{
		Name: "loadgen", LogName: "LoadGenerator", Port: 8080,
		About:    "sends requests when they are due: loadgen [run FILE]",
		Settings: c.register,
		Run:      c.run,
	})
}

// config is the program's own settings.
type config struct {
	file   string
	folder string
	out    string
	loops  int
}

func (c *config) register(s *service.Settings) {
	s.String(&c.file, "CONFIG_FILE", "", "test to be started at once")
	s.String(&c.folder, "CONFIG_DIR", "", `folder of the tests that {"config":"name"} starts`)
	s.String(&c.out, "OUT", "", "with run: file that gets the result as JSON")
	s.Int(&c.loops, "EVENT_LOOPS", 0, 0, drive.LoopsMax(), "number of event loops, 0: chosen by the rate")
}

// run serves REST, or runs one test when the arguments say so.
func (c *config) run(ctx context.Context, e *service.Env) error {
	settings := drive.Settings{
		Loops: c.loops, Meters: drive.NewMeters(e.Metrics, drive.LoopsMax()), Logger: e.Logger,
	}
	if len(e.Args) == 0 {
		if c.out != "" {
			return &service.SettingError{Name: "OUT", Value: c.out, Problem: "means something with run only"}
		}
		return control.New(settings, c.folder).Serve(ctx, e, c.file)
	}
	file, err := c.testFile(e.Args)
	if err != nil {
		return err
	}
	display := control.NewDisplay(os.Stderr)
	settings.Logger = func(component string) *slog.Logger {
		return slog.New(display.Over(e.Logger(component).Handler()))
	}
	return control.New(settings, c.folder).Run(ctx, control.Command{
		File: file, Out: c.out, Display: display, Summary: e.Stdout,
	})
}

// testFile is the file that "run FILE" names, or CONFIG_FILE.
func (c *config) testFile(args []string) (string, error) {
	switch {
	case args[0] != "run":
		return "", &service.UsageError{Problem: fmt.Sprintf("unknown command %q: there is only run", args[0])}
	case len(args) == 2:
		return args[1], nil
	case len(args) == 1 && c.file != "":
		return c.file, nil
	}
	return "", &service.UsageError{Problem: "run takes one file, or none when CONFIG_FILE is set"}
}
