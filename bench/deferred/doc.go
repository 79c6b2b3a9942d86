// Package deferred measures deferred delivery: how fast refused requests are stored, what
// many waiting requests cost, when and how fast they are delivered, and the effect on
// live requests.
package deferred

import (
	"fmt"
	"path/filepath"

	"weir/bench/lab/rig"
)

// A lab is one run of the experiment.
//
// Owned by one goroutine.
type lab struct {
	*rig.Lab
	queue rig.StoreKind // where deferred requests are kept; MemoryStore: in a file
}

// Run plays the parts named by args, or those with a queue in a file.
func Run(of *rig.Lab, args []string) {
	l := &lab{Lab: of}
	if len(args) == 0 {
		args = []string{"accept", "deliveries", "live"}
	}
	all := func() {
		l.accept()
		l.deliveries()
		l.live()
	}
	l.RunExperiment(rig.Experiment{Name: "deferred", Good: "every figure is within its bound.",
		Parts: []rig.Part{{Name: "accept", Run: l.accept}, {Name: "deliveries", Run: l.deliveries},
			{Name: "live", Run: l.live},
			l.with("redis", rig.RedisStore, all), l.with("postgres", rig.PostgresStore, all)}}, args)
}

// with returns a part that is played with a queue of another kind.
func (l *lab) with(name string, queue rig.StoreKind, play func()) rig.Part {
	return rig.Part{Name: name, Run: func() {
		l.queue = queue
		l.Heading("Queue: %s", name)
		play()
	}}
}

// where returns a prefix that distinguishes the expectations about queues.
func (l *lab) where() string {
	if l.queue == rig.MemoryStore {
		return ""
	}
	return string(l.queue) + ", "
}

func (l *lab) queueURL(name string) string {
	switch l.queue {
	case rig.RedisStore:
		return "redis://" + l.Redis().Addr
	case rig.PostgresStore:
		return l.Postgres().URL()
	}
	return "file:" + filepath.Join(l.Dir, name)
}

// settings returns the settings of a proxy with a rule for POST and, if there are two terms, one
// for PUT. Terms are a limit and whether it defers.
func (l *lab) settings(name string, terms ...string) []string {
	rules := "rules:\n"
	for i, t := range terms {
		method := [...]string{"POST", "PUT"}[i]
		rules += fmt.Sprintf("- {id: %s, match: {methods: [%s]}, %s}\n", method, method, t)
	}
	return []string{l.Rules(rules), "RATE_LIMIT_ALGORITHM=off", "GATE=off", "DEFER_URL=" + l.queueURL(name),
		"DEFER_RATE=1000000", "DEFER_MAX=10000000", "DEFER_MAX_BYTES=100GiB"}
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
