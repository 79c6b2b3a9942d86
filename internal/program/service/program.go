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

	"weir/internal/program/journal"
	"weir/internal/program/metric"
)

// Exit statuses of all programs.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// A Program describes one of the programs.
type Program struct {
	// Name is the name of the binary, such as "proxy".
	Name string
	// LogName is the program's name in its log, such as "Proxy".
	LogName string
	// About completes the first line of -help.
	About string
	// Port is the default of PORT. With 0 the program serves nothing, and has no settings
	// for serving.
	Port int
	// Commands are the possible first arguments. A program without commands takes no
	// arguments.
	Commands []string
	// File is the setting that was probably meant by a file named as an argument, such as
	// RULES_FILE. It is used in the message that refuses the argument.
	File string
	// Reloads are the parts that may be passed to Env.OnReload. The log line about a
	// reload shows "none" for those that a run does not use.
	Reloads []string
	// Settings registers the program's own settings. It may be nil.
	Settings func(*Settings)
	// Check reports what is wrong with the settings taken together and with the files
	// that they name: a *SettingError, or several joined. It is also called when single
	// settings are wrong, which then have their defaults, so that one start reports all
	// faults. It may be nil.
	Check func() error
	// Print returns what the program prints instead of running, if no single setting is
	// wrong. If it is empty the program runs. Print may be nil.
	Print func() string
	// Run is the program. ctx ends with the first SIGTERM or SIGINT, and for a program
	// that does not serve also with SIGHUP. Run then drains and returns nil. A
	// *SettingError ends the program with status 2, an *ExitError with its own status,
	// any other error with 1. Each is reported in one line on stderr and in LOG_FILE.
	Run func(ctx context.Context, e *Env) error
}

// An Env is what a running program gets.
type Env struct {
	// Addr is the address to listen on: host:port of BIND and PORT.
	Addr string
	// Log is the root of all loggers; nil discards. Use Logger.
	Log *slog.Logger
	// Guard decides who may use guarded endpoints; nil: local requests only.
	Guard *AccessGuard
	// Health is shown by /actuator/health; Run calls SetReady.
	Health *Health
	// Metrics is shown by /metrics. It already has the metrics of the Go runtime.
	Metrics *metric.Set
	// Args are the arguments that are not flags.
	Args []string
	// Stdout is for output other than the log.
	Stdout io.Writer

	reloads reloads
}

// Logger returns the logger of one part of the program. The part's name precedes each
// message.
func (e *Env) Logger(component string) *slog.Logger {
	if e.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.Log.With(journal.ComponentKey, component)
}

// An ExitError ends the program with the given status. Err, if not nil, is reported on
// stderr in one line.
type ExitError struct {
	Status int
	Err    error
}

// Error returns the cause, or the status.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Main runs p with the process's arguments and environment, and ends the process. The
// first SIGTERM or SIGINT makes Run drain, a second one ends the process at once. SIGHUP
// makes a program that serves reload its files (Env.OnReload) and reopen LOG_FILE. Such a program
// ignores SIGPIPE: without a reader of standard output, log lines are dropped and counted.
func Main(p Program) {
	signals, hangups := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(hangups, syscall.SIGHUP)
	if p.Port != 0 { // a program that serves goes on without a reader of its log
		signal.Ignore(syscall.SIGPIPE)
	}
	os.Exit(run(p, process{
		args: os.Args[1:], env: os.Getenv, environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr,
		signals: signals, hangups: hangups, exit: os.Exit,
	}))
}

// A process is what the operating system provides to a program.
type process struct {
	args           []string
	env            func(string) string
	environ        []string // NAME=value
	stdout, stderr io.Writer
	signals        <-chan os.Signal
	hangups        <-chan os.Signal
	exit           func(status int) // exits at once, even while Run runs
}

// printed prints what is to be printed instead of running, and reports whether there was
// anything.
func (p *Program) printed(w io.Writer) bool {
	if p.Print == nil {
		return false
	}
	text := p.Print()
	fmt.Fprint(w, text)
	return text != ""
}

// run is Main with all inputs as arguments. It returns the exit status.
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
	end.journal = j
	defer j.Close()
	if err = p.refusal(settings, args, errors.Join(err, logErr)); err != nil {
		return end.status(err)
	}
	e := &Env{
		Addr: c.addr(), Log: j.Logger(), Health: new(Health), Metrics: metric.New(),
		Args: args, Stdout: proc.stdout, reloads: reloads{possible: p.Reloads},
	}
	e.registerMetrics(j)
	log := e.Logger(p.LogName)
	slog.SetDefault(log) // for libraries that use the default logger
	slog.SetLogLoggerLevel(slog.LevelDebug)
	log.Info("Started", append([]any{"version", Version()}, settings.changed()...)...)
	settings.warnMisspelt(log, proc.environ)
	settings.warnNoEffect(log)
	e.Guard = &AccessGuard{Token: c.token, Open: c.open, Log: e.Logger("Admin")}
	if c.open {
		e.Guard.Log.Warn("ADMIN_OPEN is set: everybody who can reach the own endpoints may use all of them")
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
		err = nil // Run reports that it was asked to stop
	}
	return end.status(err)
}

// registerMetrics registers the metrics of all programs.
func (e *Env) registerMetrics(j *journal.Log) {
	e.Metrics.Runtime()
	e.Metrics.Gauge("weir_build_info"+metric.Labels("version", Version(), "goversion", runtime.Version()),
		"always 1; the labels say what the program was built from", func() float64 { return 1 })
	const dropped, droppedHelp = "weir_log_dropped_total", "log lines that could not be written"
	e.Metrics.Counter(dropped+metric.Labels("output", "stdout"), droppedHelp,
		func() uint64 { n, _ := j.Dropped(); return n })
	e.Metrics.Counter(dropped+metric.Labels("output", "file"), droppedHelp,
		func() uint64 { _, n := j.Dropped(); return n })
}

// refusal returns everything that is wrong with how the program was started; err is what
// is already known.
func (p *Program) refusal(s *Settings, args []string, err error) error {
	if _, unread := errors.AsType[*UsageError](err); unread {
		return err
	}
	err = errors.Join(p.wrongArgument(s, args), s.misplaced(args), err)
	if p.Check != nil {
		err = errors.Join(err, without(err, p.Check()))
	}
	return err
}

// watchSignals returns a context that ends with the first signal; a second one exits. For
// a command, which ends with its terminal, a hangup is such a signal, too. stop ends the
// watch.
func (proc process) watchSignals(h *Health, log *slog.Logger) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	end := background(func(over <-chan struct{}) {
		next := func() os.Signal { // nil: the watch has ended
			select {
			case s := <-proc.signals:
				return s
			case s := <-proc.hangups:
				return s
			case <-over:
				return nil
			}
		}
		s := next()
		if s == nil {
			return
		}
		log.Info("Stopping", "signal", s.String())
		h.Drain()
		cancel()
		if s = next(); s != nil {
			log.Warn("Exiting immediately after the second signal", "signal", s.String())
			proc.exit(exitInterrupted)
		}
	})
	return ctx, func() {
		cancel()
		end()
	}
}

// common has the settings of all programs.
type common struct {
	serves bool
	port   int
	bind   string
	token  string
	open   bool
	log    journal.Config
}

// register registers the common settings. PORT and BIND are only for a program that
// serves.
func (c *common) register(s *Settings, port int) {
	c.serves = port != 0
	if c.serves {
		s.Add(SettingList{
			{Name: "PORT", Alias: "SERVER_PORT", Default: strconv.Itoa(port), Value: Int(&c.port, 0, 65535),
				Help: "port to listen on, 0 for any free one"},
			{Name: "BIND", Default: "0.0.0.0", Value: String(&c.bind),
				Help: "address to listen on; 0.0.0.0 means all addresses, including IPv6 where available"},
			{Name: "ADMIN_TOKEN", Value: BearerToken(&c.token),
				Help: "token that own endpoints which change or reveal something require as Authorization: Bearer; empty: the " +
					"request must be made on this machine by root or by the program's user, and not forwarded by a proxy"},
			{Name: "ADMIN_OPEN", Default: "false", Value: Bool(&c.open),
				Help: "true: everybody may use all own endpoints"},
		})
	}
	s.Add(SettingList{
		{Name: "LOG_LEVEL", Default: "info", Value: StringEnum(&c.log.Level, "debug, info, warn, error"),
			Help: "minimum level of log lines"},
		{Name: "LOG_FORMAT", Default: "text", Value: StringEnum(&c.log.Format, "text, json"), Help: "format of log lines"},
		{Name: "LOG_FILE", Value: String(&c.log.File),
			Help: "file to write the log to in addition to stdout, rotated at 10 MB unless another user may change its folder"},
	})
}

// openLog sets up the log, without LOG_FILE if that cannot be written.
func (c *common) openLog(stdout io.Writer) (*journal.Log, error) {
	log, err := journal.Open(c.log, stdout)
	if err != nil {
		err = &SettingError{Name: "LOG_FILE", Value: c.log.File, Problem: "cannot be written: " + err.Error(),
			Allowed: "a file in a directory that exists"}
	}
	return log, err
}

// addr returns the address to listen on. It is empty without a port.
func (c *common) addr() string {
	if !c.serves {
		return ""
	}
	return net.JoinHostPort(c.bind, strconv.Itoa(c.port))
}
