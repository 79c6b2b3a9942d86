package service

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
)

// writeHelp writes the output of -help: every setting with its flag, default, meaning and
// allowed values.
func (s *Settings) writeHelp(w io.Writer, about string) {
	if about != "" {
		about = " - " + about
	}
	fmt.Fprintf(w, "%s%s\n\n", s.program, about)
	fmt.Fprint(w, cmp.Or(s.about, "Every setting is an environment variable and a flag; the flag wins.")+"\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "SETTING\tFLAG\tDEFAULT\tMEANING\n")
	for _, g := range s.list {
		meaning := g.Help
		if g.Value.allowed != "" {
			meaning += " (" + g.Value.allowed + ")"
		}
		if g.Alias != "" {
			meaning += "; also " + g.Alias
		}
		fmt.Fprintf(t, "%s\t-%s\t%s\t%s\n", g.Name, flagName(g.Name),
			cmp.Or(s.presets[g.Name], g.Default, "-"), meaning)
	}
	if s.find("PORT") != nil {
		fmt.Fprint(t, "\t-healthcheck\t\tcheck whether the program that runs with the same settings is ready, or with "+
			"=liveness whether it works; exit status 0: yes\n")
	}
	fmt.Fprint(t, "\t-version\t\tprint the version\n\t-help\t\tprint this help\n")
	_ = t.Flush() // errors of standard output are ignored
}
