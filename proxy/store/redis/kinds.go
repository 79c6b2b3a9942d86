package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/limit"
	"weir/proxy/store"
)

// A key has a name for each kind of limits under which some proxy counts it, and an
// edit of the key is about all of them, also about those that are known to other
// proxies only. Therefore every client notes the kinds that it asks about in Redis.
const (
	kindsName = namespace + "kinds"
	// kindsMax is how many kinds are kept in Redis, those that became known last. An edit
	// does not find names of other kinds.
	kindsMax = 1024
	// kindsPause is how long a client does not note a kind again. Edits may miss names for
	// so long after Redis has lost the kinds.
	kindsPause = time.Minute
)

// noted says when a client has last noted each kind; with kindsMax of them it starts
// anew.
//
// Safe for concurrent use: mu guards.
type noted struct {
	mu   sync.Mutex
	last map[limit.Kind]time.Time
}

// due returns the kinds of groups which were not noted lately, each once.
func (n *noted) due(now time.Time, groups []*store.Group) (kinds []limit.Kind) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range groups {
		for i := range g.Counters {
			kind := g.Counters[i].Limit.Kind()
			if last, known := n.last[kind]; kind == 0 || known && now.Sub(last) < kindsPause || slices.Contains(kinds, kind) {
				continue
			}
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// note remembers that kinds were noted.
func (n *noted) note(now time.Time, kinds []limit.Kind) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, kind := range kinds {
		if n.last == nil || len(n.last) >= kindsMax {
			n.last = make(map[limit.Kind]time.Time)
		}
		n.last[kind] = now
	}
}

// forget has all kinds be noted again.
func (n *noted) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = nil
}

// noteKinds is the call which notes kinds.
func (c *client) noteKinds(kinds []limit.Kind) call {
	note := call{script: c.scripts.kinds, keys: []string{c.cfg.KeyPrefix + kindsName}, args: []string{strconv.Itoa(kindsMax)}}
	for _, kind := range kinds {
		note.args = append(note.args, string(kind.Append(nil)))
	}
	return note
}

// names returns all names of a key.
func (c *client) names(ctx context.Context, conn rueidis.Client, rule string, key []byte) ([]string, error) {
	c.counts.commands.Inc()
	kinds, err := conn.Do(ctx, conn.B().Get().Key(c.cfg.KeyPrefix+kindsName).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, fmt.Errorf("read the kinds of limits: %w", err)
	}
	base := string(appendBase(nil, c.cfg.KeyPrefix, rule, key))
	names := strings.Fields(kinds)
	for i, kind := range names {
		names[i] = base + kind
	}
	return names, nil
}
