package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"weir/proxy/limit"
)

// A key has a name for each kind of limits under which some proxy counts it, and an
// edit of the key is about all of them, also about those that are known to other
// proxies only. Therefore every lane notes the kinds that it asks about in Redis.
const (
	kindsName = namespace + "kinds"
	// kindsMax is how many kinds are kept in Redis, those that became known last. An edit
	// does not find names of other kinds.
	kindsMax = 1024
	// kindsPause is how long a lane does not note a kind again. Edits may miss names for
	// so long after Redis has lost the kinds.
	kindsPause = time.Minute
)

// noted says when a lane has last noted each kind; with kindsMax of them it starts
// anew.
//
// Owned by its lane.
type noted map[limit.Kind]time.Time

// note adds to a batch the kinds of a group which were not noted lately.
func (l *Lane) note(now time.Time, b *batch, g *group) {
	for i := range g.counters {
		kind := g.counters[i].Limit.Kind()
		if last, known := l.noted[kind]; kind == 0 || known && now.Sub(last) < kindsPause {
			continue
		}
		if l.noted == nil || len(l.noted) >= kindsMax {
			l.noted = make(noted)
		}
		l.noted[kind] = now
		b.kinds = append(b.kinds, string(kind.Append(nil)))
	}
}

// kinds is the call which notes kinds.
func (s *sender) kinds(kinds []string) call {
	return call{script: s.c.scripts.kinds, keys: []string{s.c.cfg.KeyPrefix + kindsName},
		args: append([]string{strconv.Itoa(kindsMax)}, kinds...)}
}

// names returns all names of a key.
func (c *Client) names(ctx context.Context, conn rueidis.Client, rule string, key []byte) ([]string, error) {
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
