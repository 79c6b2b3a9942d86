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

// A key has a name for each kind of limits under which some proxy counts it. An edit of the
// key concerns all of them, including those that only other proxies use. Therefore every
// backend registers the kinds that it uses in Redis.
const (
	kindsName = namespace + "kinds"
	// kindsMax bounds the kinds kept in Redis; the oldest are dropped. Edits do not find names
	// of other kinds.
	kindsMax = 1024
	// kindsPause is the time until a backend registers a kind again. After Redis has lost the
	// kinds, edits may miss names for this time.
	kindsPause = time.Minute
)

// noted has the time when a backend last registered each kind. At kindsMax it is emptied.
//
// Safe for concurrent use: mu guards last.
type noted struct {
	mu   sync.Mutex
	last map[limit.Kind]time.Time
}

// due returns the kinds of groups that must be registered, each once.
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

// forget makes all kinds due.
func (n *noted) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = nil
}

// noteKinds returns the call that registers kinds.
func (be *backend) noteKinds(kinds []limit.Kind) call {
	note := call{script: be.scripts.kinds, keys: []string{be.cfg.KeyPrefix + kindsName},
		args: []string{strconv.Itoa(kindsMax)}}
	for _, kind := range kinds {
		note.args = append(note.args, string(kind.Append(nil)))
	}
	return note
}

func (be *backend) names(ctx context.Context, conn rueidis.Client, rule string, key []byte) ([]string, error) {
	be.counts.commands.Inc()
	kinds, err := conn.Do(ctx, conn.B().Get().Key(be.cfg.KeyPrefix+kindsName).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, fmt.Errorf("read the kinds of limits: %w", err)
	}
	base := string(appendBase(nil, be.cfg.KeyPrefix, rule, key))
	names := strings.Fields(kinds)
	for i, kind := range names {
		names[i] = base + kind
	}
	return names, nil
}
