package admin

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/proxy/rules/rule"
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
	if m.Rules, err = NewRules(now, RuleFiles{Options: ruleOptions(t)}, m.link, m.log.Logger); err != nil {
		t.Fatal(err)
	}
	m.OnChange = func() { m.changes++ }
}

func (m *ruleMember) tell() string {
	if set := m.Set(); set.Len() > 0 {
		return m.describe(set.Rule(0).ID)
	}
	return m.describe("settings")
}

func (m *ruleMember) do(now time.Time, words []string) (known bool, err error) {
	switch words[0] {
	case "set": // ID [if-match]
		_, err = m.Put(now, []byte(oneRule(words[1], 1)), numberAt(words, 2))
	case "delete":
		_, err = m.Put(now, []byte(rule.NoRules), -1)
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
	f := fleetOf(t, func(k *link) *ruleMember { return &ruleMember{peer: peer{link: k}} }, names)
	f.lazy = true // as document.Share does
	return f
}

// Rules and store come together as limits do, and unreadable rules are told apart.
func TestRuleHistories(t *testing.T) {
	for _, test := range []history{
		{"unreadable: who asks is told again", "a set 7; garbage ?; round; a reload; a logged 2 ignored; a is 7 v1 covered"},
		{"unreadable rules", `a set 7; round; garbage {"document":{"rules":[{}]},"updatedAt":"2036-01-19T16:30:00Z"}; round; a is 7 v1 covered; a logged 1 rules[0].id`},
		{"a newer proxy's fields: ignored, warned about once, written again",
			`a set 7; round; garbage NEWER; round; round; a is 9 v2 store; b is 9 v2 store; flush; round; round; a is 9 v1 store; b logged 1 which; c restart; c is 9 v1 store; c logged 1 which`},
		{"a newer proxy's field within the rules",
			`garbage {"updatedAt":"2026-01-19T16:40:00Z","document":{"rules":[{"id":"9","note":"x","limit":{"algorithm":"off"}}]}}; round; a is 9 v1 store; a logged 1 rules[0].note`},
	} {
		t.Run(test.name, func(t *testing.T) {
			newRuleFleet(t, "a", "b", "c").play(strings.ReplaceAll(test.script, "NEWER", newerRules))
		})
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
	const classes = "rules:\n  - {id: a, priority: {header: P, classes: {low: 0.5, high: 0}, default: high}, limit: " +
		"{algorithm: fixed, limit: 5, window: 1}}\n"
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
	r.write("clients.json", strings.Replace(`{"acme":{"algorithm":"fixed","limit":5,"window":1,"priority":"middle"}}`,
		"middle", "low", 1))
	r.refresh(epoch)
	r.inForce("a=5 clients v1 api stored clients=1")
	r.log.Taken()
	r.write("clients.json", `{"acme":{"algorithm":"fixed","limit":5,"window":1,"priority":"middle"}}`)
	r.refresh(epoch)
	r.inForce("a=5 clients v1 api stored clients=1")
	if lines := r.log.Taken(); len(lines) != 1 || !strings.HasPrefix(lines[0], "ERROR") ||
		!strings.Contains(lines[0], "setting=CLIENTS_FILE") {
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
		if _, ok := errors.AsType[store.SizeError](err); !ok ||
			!strings.Contains(err.Error(), "must be at most 4194304 bytes as JSON, is ") {
			t.Errorf("%s: %v", reach, err)
		}
		f.play("a is r0 v2 store; round; a is r0 v2 store")
	}
}
