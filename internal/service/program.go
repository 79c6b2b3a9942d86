package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"weir/internal/journal"
	"weir/internal/metric"
)

// Exit statuses of all programs.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// A Program says what is particular to one of the programs.
type Program struct {
	// Name is the binary's: "proxy".
	Name string
	// LogName is how the program calls itself in its log: "Proxy".
	LogName string
	// About is half a sentence for -help.
	About string
	// Port is the default of PORT. With 0 the program serves nothing: it has
	// none of the settings of one that serves.
	Port int
	// Commands are the words that the first argument may be. A program without
	// commands takes no arguments.
	Commands []string
	// File is the setting that a file named as an argument is meant for:
	// RULES_FILE. It is for the message that refuses the argument.
	File string
	// Reloads are the parts that Env.OnReload may be given. Those that a run does not
	// have are "none" in the line about a reload.
	Reloads []string
	// Settings registers the program's own settings; may be nil.
	Settings func(*Settings)
	// Check says what is wrong with the settings together and with the files that
	// they name: a *SettingError, or several joined. It is also called when single
	// settings are wrong, which then have their defaults, so that one start names
	// all faults. May be nil.
	Check func() error
	// Print returns what the program prints instead of running, when no single setting is
	// wrong; empty: it runs. May be nil.
	Print func() string
	// Run is the program. ctx ends with the first SIGTERM or SIGINT, and with
	// SIGHUP unless the program serves: Run then drains and returns nil. A
	// *SettingError ends the program with status 2, an *ExitError with its own, any
	// other error with 1, each reported in one line on stderr and in LOG_FILE.
	Run func(ctx context.Context, e *Env) error
}

// An Env is what a running program is given.
type Env struct {
	// Addr is where to listen: host:port of BIND and PORT.
	Addr string
	// Log is the root of all loggers; nil discards. Use Logger.
	Log *slog.Logger
	// Guard decides who may use guarded endpoints; nil: local requests only.
	Guard *Guard
	// Health is shown by /actuator/health; Run calls SetReady.
	Health *Health
	// Metrics is shown by /metrics; it holds the runtime's already.
	Metrics *metric.Set
	// Version is what -version prints.
	Version string
	// Args are the arguments that are not flags.
	Args []string
	// Stdout is for what the program prints besides its log.
	Stdout io.Writer

	reloads reloads
}

// Logger returns the logger of one part of the program: its name stands before
// each message.
func (e *Env) Logger(component string) *slog.Logger {
	if e.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.Log.With(journal.ComponentKey, component)
}

// An ExitError ends the program with a status of its own choice. Err, when
// there is one, is told on stderr in one line.
type ExitError struct {
	Status int
	Err    error
}

// Error returns the cause, or names the status.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Main runs p with the process's arguments and environment, and ends the
// process. The first SIGTERM or SIGINT lets Run drain, a second one ends at once.
// SIGHUP has a program that serves read its files again (Env.OnReload) and reopen
// LOG_FILE.
func Main(p Program) {
	signals, hangups := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(hangups, syscall.SIGHUP)
	os.Exit(run(p, process{
		args: os.Args[1:], env: os.Getenv, environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr,
		signals: signals, hangups: hangups, exit: os.Exit,
	}))
}

// A process is what the operating system gives to a program.
type process struct {
	args           []string
	env            func(string) string
	environ        []string // NAME=value
	stdout, stderr io.Writer
	signals        <-chan os.Signal
	hangups        <-chan os.Signal
	exit           func(status int) // at once, while Run still runs
}

// printed prints what there is to be printed instead of running, and reports whether
// there was something.
func (p *Program) printed(w io.Writer) bool {
	if p.Print == nil {
		return false
	}
	text := p.Print()
	fmt.Fprint(w, text)
	return text != ""
}

// run is Main with everything from outside as an argument; it returns the exit
// status.
func run(p Program, proc process) int {
	settings, c := NewSettings(p.Name), common{}
	c.register(settings, p.Port)
	if p.Settings != nil {
		p.Settings(settings)
	}
	args, err := settings.Parse(proc.args, proc.env)
	end := &ending{program: p, settings: settings, stderr: proc.stderr}
	switch {
	case errors.Is(err, flag.ErrHelp):
		settings.writeHelp(proc.stdout, p.About)
		return exitDone
	case errors.Is(err, errVersion):
		fmt.Fprintf(proc.stdout, "%s %s (%s %s/%s)\n", p.Name, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return exitDone
	case err == nil && p.printed(proc.stdout):
		return exitDone
	case err == nil && settings.question != "":
		return end.status(checkHealth(settings, &c, proc.stdout))
	}
	j, logErr := c.openLog(proc.stdout)
	defer j.Close()
	end.journal = j
	if err = p.refusal(settings, args, errors.Join(err, logErr)); err != nil {
		return end.status(err)
	}
	e := &Env{
		Addr: c.addr(), Log: j.Logger(), Health: new(Health), Metrics: metric.New(),
		Version: Version(), Args: args, Stdout: proc.stdout, reloads: reloads{possible: p.Reloads},
	}
	e.Metrics.Runtime()
	e.Metrics.Gauge("weir_build_info"+metric.Labels("version", e.Version, "goversion", runtime.Version()),
		"always 1; the labels say what the program was built from", func() float64 { return 1 })
	log := e.Logger(p.LogName)
	slog.SetDefault(log) // for libraries that log on their own
	slog.SetLogLoggerLevel(slog.LevelDebug)
	log.Info("Started", append([]any{"version", e.Version}, settings.changed()...)...)
	settings.warnMisspelt(log, proc.environ)
	settings.warnIdle(log)
	e.Guard = &Guard{Token: c.token, Open: c.open, Log: e.Logger("Admin")}
	if c.open {
		e.Guard.Log.Warn("ADMIN_OPEN: everybody who reaches the own endpoints may use all of them")
	}
	if c.log.File != "" {
		e.OnReload(j.Reopen, logPart)
	}
	if p.Port != 0 && len(args) == 0 {
		defer e.followHangups(proc.hangups, log)()
		proc.hangups = nil
	}
	ctx, stop := proc.watchSignals(e.Health, log)
	defer stop()
	stopHealth := e.Health.follow()
	err = p.Run(ctx, e)
	stopHealth()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // Run says that it was asked to stop
	}
	return end.status(err)
}

// refusal is everything that is wrong with how the program was started; err is
// what is known of that.
func (p *Program) refusal(s *Settings, args []string, err error) error {
	if _, unread := errors.AsType[*UsageError](err); unread {
		return err
	}
	err = errors.Join(p.wrongArgument(s, args), err)
	if p.Check != nil {
		err = errors.Join(err, notAbout(namesIn(err), p.Check()))
	}
	return err
}

// watchSignals returns a context that ends with the first signal; a second one
// exits. A command ends with its terminal, so to it a hangup is such a signal, too.
// stop ends the watch.
func (proc process) watchSignals(h *Health, log *slog.Logger) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	next := func() os.Signal { // nil: it is over
		select {
		case s := <-proc.signals:
			return s
		case s := <-proc.hangups:
			return s
		case <-over:
			return nil
		}
	}
	watch := func() {
		s := next()
		if s == nil {
			return
		}
		log.Info("Stopping", "signal", s.String())
		h.Drain()
		cancel()
		if s = next(); s != nil {
			log.Warn("Ending at once: this is the second signal", "signal", s.String())
			proc.exit(exitInterrupted)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		watch()
	}()
	return ctx, func() {
		cancel()
		close(over)
		<-done
	}
}

// common is the settings that all programs have.
type common struct {
	serves bool
	port   int
	bind   string
	token  string
	open   bool
	log    journal.Config
}

// register registers the common settings; PORT and BIND only for a program
// that has a port.
func (c *common) register(s *Settings, port int) {
	c.serves = port != 0
	if c.serves {
		s.Int(&c.port, "PORT", port, 0, 65535, "port to listen on, 0 for any free one")
		s.list[len(s.list)-1].alias = "SERVER_PORT"
		s.String(&c.bind, "BIND", "0.0.0.0", "address to listen on; 0.0.0.0 is all addresses, of IPv6 too where there is any")
		s.Token(&c.token, "ADMIN_TOKEN", "what own endpoints that change or reveal something require: Authorization: Bearer …; empty: that the request "+
			"is made on this machine by root or by the program's user, and not passed on by a proxy")
		s.Bool(&c.open, "ADMIN_OPEN", false, "let everybody use all own endpoints")
	}
	s.Enum(&c.log.Level, "LOG_LEVEL", "info", []string{"debug", "info", "warn", "error"}, "least level of what is logged")
	s.Enum(&c.log.Format, "LOG_FORMAT", "text", []string{"text", "json"}, "form of log lines")
	s.String(&c.log.File, "LOG_FILE", "", "file that gets the log besides stdout, rotated at 10 MB")
}

// openLog sets up the log, without LOG_FILE when that cannot be written.
func (c *common) openLog(stdout io.Writer) (*journal.Journal, error) {
	log, err := journal.Open(c.log, stdout)
	if err != nil {
		err = &SettingError{Name: "LOG_FILE", Value: c.log.File, Problem: "cannot be written: " + err.Error(), Allowed: "a file in a directory that exists"}
	}
	return log, err
}

// addr is where the program listens; empty without a port.
func (c *common) addr() string {
	if !c.serves {
		return ""
	}
	return net.JoinHostPort(c.bind, strconv.Itoa(c.port))
}
