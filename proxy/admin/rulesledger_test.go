package admin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/proxy/store"
)

// A ruleMember is a proxy that shares its rules.
type ruleMember struct {
	*Rules
	peer
}

func (m *ruleMember) start(t *testing.T, now time.Time) {
	t.Helper()
	m.begin()
	var err error
	if m.Rules, err = NewRules(now, RuleFiles{}, ruleOptions(t), m.link, m.log.Logger); err != nil {
		t.Fatal(err)
	}
	m.OnChange = func() { m.changes++ }
}

// round is one second of the proxy: changes are reported to it, and pending ones are written.
func (m *ruleMember) round(now time.Time) {
	if doc := m.fresh(RulesName); doc != nil {
		m.Observe(now.Add(m.skew), *doc)
	}
	m.syncPending(now.Add(m.skew))
}

func (m *ruleMember) tell() string {
	a := m.Active()
	what := "none"
	if a.Set.Len() > 0 {
		what = a.Set.Rule(0).ID
	}
	text := fmt.Sprintf("%s v%d %v", what, a.Version, m.place)
	if a.Stored != (m.place == placeStore) || a.Version != m.version {
		text += "!"
	}
	return text
}

func (m *ruleMember) do(now time.Time, words []string) (known bool, err error) {
	switch words[0] {
	case "put", "change": // ID [if-match]
		_, err = m.Put(now, []byte(oneRule(words[1], 1)), numberAt(words, 2))
	case "reload":
		_ = m.Reload(now)
	default:
		return false, nil
	}
	return true, err
}

// newerRules is a document that a newer proxy has written.
const newerRules = `{"updatedAt":"2026-01-19T16:40:00Z","document":{"rules":[{"id":"9","match":{"path":"/a","color":"red"},"limit":{"algorithm":"fixed","limit":5,"window":1,"shape":1},"note":"x"}],"more":1},"by":"me"}`

func newRuleFleet(t *testing.T, names ...string) *fleet[*ruleMember] {
	return fleetOf(t, func(k *link) *ruleMember { return &ruleMember{peer: peer{link: k}} }, names)
}

// Rules and store come together, whatever happens to either: as the limits do.
func TestRulesConverge(t *testing.T) {
	for _, test := range []struct{ name, script string }{
		{"followed", "a put 7; round; b is 7 v1 store; c is 7 v1 store; b changes 1"},
		{"nothing known", "round; a is none v0 nowhere; a changes 0"},
		{"one after the other", "a put 7; round; b put 8; a is 7 v1 store; round; a is 8 v2 store; c is 8 v2 store; c changes 2"},
		{"at the same time", "a put 7; b put 8; a is 7 v1 store; round; a is 8 v2 store; b is 8 v2 store"},
		{"beaten, any version will do", "a beaten b 8; a put 7; a is 7 v2 store; round; b is 7 v2 store"},
		{"beaten, and it says upon what", "a put 6; round; a beaten b 8; a refused 7 1; a is 8 v2 store"},
		{"others are always first", "a put 7; a late; a refused 8 -1; a is 7 v1 store"},
		{"If-Match", "a refused 7 1; a put 7 0; round; b refused 8 0; b put 8 1; b is 8 v2 store"},
		{"a restart", "a put 7; a restart; a is 7 v1 store; a logged 1 Applied"},

		{"away, then back", "a away; a put 7; a is 7 v1 here; a logged 1 proxy; round; b is none v0 nowhere; a back; round; round; a is 7 v1 store; b is 7 v1 store; a changes 1; a logged 1 stored"},
		{"away, and others go on", "a put 6; round; a away; b put 7; b put 8; a put 9; a back; round; round; a is 9 v4 store; b is 9 v4 store"},
		{"away, and others go on later", "a put 6; round; a away; a put 9; b put 8; a back; round; a is 8 v2 store; b is 8 v2 store"},
		{"written, and nobody knows", "a deaf; a put 7; a is 7 v1 here; a back; round; a is 7 v1 store; a changes 1"},
		{"read-only", "a readonly; a put 7; a put 8; round; a is 8 v2 here; a back; round; round; b is 8 v1 store; a is 8 v1 store"},
		{"away at the start", "a put 7; b away; b restart; b is none v0 nowhere; b back; round; b is 7 v1 store"},

		{"emptied", "a put 6; a put 7; round; flush; round; round; a is 7 v1 store; b is 7 v1 store; c is 7 v1 store; a changes 2"},
		{"emptied, nobody knows anything", "a put 7; flush; a restart; round; a is none v0 nowhere"},
		{"emptied and read-only", "a put 7; flush; a readonly; a reload; a is 7 v1 lost; a back; round; a is 7 v1 store"},
		{"emptied, then changed", "a put 6; a put 7; round; flush; a put 8; a is 8 v1 store; round; b is 8 v1 store"},
		{"emptied twice", "a put 7; round; flush; round; flush; round; a is 7 v1 store; c is 7 v1 store"},

		{"unreadable: kept, warned about once", "a put 7; round; garbage ?; round; round; a is 7 v1 covered; a logged 1 ignored; b is 7 v1 covered"},
		{"unreadable: who asks is told again", "a put 7; garbage ?; round; a reload; a logged 2 ignored; a is 7 v1 covered"},
		{"unreadable: another is another warning", "garbage ?; round; garbage !; round; a logged 2 ignored"},
		{"unreadable rules", `a put 7; round; garbage {"document":{"rules":[{}]},"updatedAt":"2036-01-19T16:30:00Z"}; round; a is 7 v1 covered; a logged 1 rules[0].id`},
		{"unreadable: the next change takes its place", "a put 7; round; garbage ?; round; b put 8; b is 8 v3 store; round; a is 8 v3 store"},
		{"unreadable: a change waited for the store", "a away; a put 7; garbage ?; round; a back; round; round; a is 7 v2 store; b is 7 v2 store"},
		{"unreadable: found by a change that says upon what", "a put 7; round; garbage ?; a refused 8 1; a is 7 v1 covered"},
		{"unreadable: removed", "a put 7; round; garbage ?; round; flush; round; round; a is 7 v1 store; b is 7 v1 store"},
		{"a newer proxy's fields: ignored, warned about once, written again", `a put 7; round; garbage NEWER; round; round; a is 9 v2 store; b is 9 v2 store; flush; round; round; a is 9 v1 store; b logged 1 which; c restart; c is 9 v1 store; c logged 1 which`},
		{"a newer proxy's field within the rules", `garbage {"updatedAt":"2026-01-19T16:40:00Z","document":{"rules":[{"id":"9","note":"x","limit":{"algorithm":"off"}}]}}; round; a is 9 v1 store; a logged 1 rules[0].note`},
		{"foreign", "a put 7; round; foreign hello; round; a is 7 v1 covered; a logged 1 ignored; b put 8; b is 8 v1 store; round; a is 8 v1 store"},

		{"a clock behind", "a put 7; round; b skew -600; b put 8; round; a is 8 v2 store"},
		{"a clock far ahead", "a skew 7200; a put 7; round; b is 7 v1 store; b logged 1 clock; a logged 0 clock"},
	} {
		t.Run(test.name, func(t *testing.T) {
			newRuleFleet(t, "a", "b", "c").play(strings.ReplaceAll(test.script, "NEWER", newerRules))
		})
	}
}

// Whatever was lost and missed, all proxies have the same rules in the end: the ones
// accepted last of those that are still known.
func TestRulesConvergeAtRandom(t *testing.T) {
	for seed := range uint64(60) {
		f := newRuleFleet(t, "a", "b", "c")
		rng := rand.New(rand.NewPCG(seed, 6))
		for _, m := range f.of {
			m.skew = time.Duration(rng.IntN(61)-30) * time.Second
		}
		for i := range 60 {
			f.now = f.now.Add(time.Second)
			m := f.of[f.names[rng.IntN(3)]]
			switch rng.IntN(8) {
			case 0, 1:
				if err := f.change(m, fmt.Sprint("r", i), fmt.Sprint([]int64{-1, -1, m.Active().Version}[rng.IntN(3)])); err != nil && !errors.Is(err, ErrConflict) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			case 2, 3, 4:
				m.round(f.now)
			case 5:
				m.link.set(reach(rng.IntN(5)))
			case 6:
				if rng.IntN(4) == 0 {
					f.store.flush()
				}
			case 7:
				f.round()
			}
		}
		for _, m := range f.of {
			m.link.set(reachAll)
		}
		f.now = f.now.Add(time.Minute)
		for range 4 {
			f.round()
		}
		want := f.of["a"].tell()
		for _, name := range f.names {
			if got := f.of[name].tell(); got != want || strings.Contains(got, "!") || strings.Contains(got, "here") || strings.Contains(got, "lost") {
				t.Errorf("seed %d: %s is %s, a is %s", seed, name, got, want)
			}
		}
	}
}

// Rules of the store that the clients' file makes faulty are understood as soon as
// that file lets them.
func TestRulesWaitForClients(t *testing.T) {
	f := newRuleFleet(t, "a")
	prep := &ruleRig{asker: asker{t: t}, dir: t.TempDir()}
	prep.write("clients.json", `{"acme":{"algorithm":"fixed","limit":5,"window":1,"priority":"middle"}}`)
	r := mustStartRules(t, prep.dir, RuleFiles{Clients: "clients.json"}, f.of["a"].link)
	r.log.Taken()
	const classes = "rules:\n  - {id: a, priority: {header: P, classes: {low: 0.5, high: 0}, default: high}, limit: {algorithm: fixed, limit: 5, window: 1}}\n"
	if _, err := f.of["a"].Put(epoch, []byte(classes), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Put(epoch, []byte(classes), -1); faultsOf(err) == nil {
		t.Errorf("rules without the class of a client were put: %v", err)
	}
	r.Sync(epoch)
	r.Sync(epoch)
	r.inForce("clients v0 default clients=1")
	if lines := r.log.Taken(); len(lines) != 1 || !strings.Contains(lines[0], `must have the class "middle"`) {
		t.Errorf("logged %q, want one line with the priority", lines)
	}
	r.write("clients.json", strings.Replace(`{"acme":{"algorithm":"fixed","limit":5,"window":1,"priority":"middle"}}`, "middle", "low", 1))
	r.refresh(epoch)
	r.inForce("a=5 clients v1 api stored clients=1")
	r.log.Taken()
	r.write("clients.json", `{"acme":{"algorithm":"fixed","limit":5,"window":1,"priority":"middle"}}`)
	r.refresh(epoch)
	r.inForce("a=5 clients v1 api stored clients=1")
	if lines := r.log.Taken(); len(lines) != 1 || !strings.HasPrefix(lines[0], "ERROR") || !strings.Contains(lines[0], "setting=CLIENTS_FILE") {
		t.Errorf("logged %q, want one line about the clients' file", lines)
	}
}

// bulky is rules of a size, made of a character.
func bulky(size int, character string) string {
	const valueBytes, values = 900, 7
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, "- {id: r%d, limit: {algorithm: fixed, limit: 5, window: 1}, match: {headers: {", i)
		for k := range values {
			fmt.Fprintf(&text, "X%d: %q, ", k, fmt.Sprint(i)+strings.Repeat(character, valueBytes))
		}
		text.WriteString("Y: z}}}\n")
	}
	return text.String()
}

// Rules are stored in about as many bytes as they were sent in, whatever they are made
// of; what is too large for the store is refused before it is in force, also while the
// store is away, and is not tried again.
func TestLargeRules(t *testing.T) {
	f := newRuleFleet(t, "a", "b")
	for character, version := range map[string]int64{"<": 1, "&": 2} {
		if a, err := f.of["a"].Put(f.now, []byte(bulky(1<<20, character)), -1); err != nil || !a.Stored {
			t.Fatalf("1 MiB of %s: %v", character, err)
		}
		if n := len(f.store.read().Body); n > 1<<20+1<<16 {
			t.Errorf("1 MiB of %s is %d bytes as version %d", character, n, version)
		}
		f.round()
	}
	f.play("b is r0 v2 store; a away")
	for _, reach := range []string{"a away", "a back"} {
		f.play(reach)
		_, err := f.of["a"].Put(f.now, []byte(bulky(4<<20, "x")), -1)
		if _, ok := errors.AsType[store.SizeError](err); !ok || !strings.Contains(err.Error(), "must be at most 4194304 bytes as JSON, is ") {
			t.Errorf("%s: %v", reach, err)
		}
		f.play("a is r0 v2 store; round; a is r0 v2 store")
	}
}
