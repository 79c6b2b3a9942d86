package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"weir/internal/test/testkit"
	"weir/proxy/ask/port"
	"weir/proxy/store/redis/redistest"
)

// Twins are envoyproxy/ratelimit and a proxy that answers as it does, with the same files
// and the same Redis.
type twins struct {
	t          *testing.T
	peer, weir string // URLs of /json, or addresses for gRPC
	calls      map[string]*grpc.ClientConn
	byGRPC     *twins // the same two
}

// startTwins builds envoyproxy/ratelimit and starts both.
func startTwins(t *testing.T, files map[string]string) *twins {
	t.Helper()
	redis := redistest.Start(t)
	root := t.TempDir()
	folder := filepath.Join(root, "limits", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		testkit.WriteFile(t, filepath.Join(folder, name), text)
	}
	program := filepath.Join(t.TempDir(), "ratelimit")
	build := exec.Command("go", "build", "-C", "../bench/limits/decision/ratelimit", "-o", program,
		"github.com/envoyproxy/ratelimit/src/service_cmd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("envoyproxy/ratelimit cannot be built: %v\n%s", err, out)
	}
	peer, calls := testkit.Endpoint{T: t, Addr: testkit.FreeAddr(t)}, testkit.FreeAddr(t)
	_, callPort, _ := strings.Cut(calls, ":")
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		"PORT="+peer.Port(), "GRPC_PORT="+callPort, "DEBUG_PORT="+testkit.FreePort(t),
		"USE_STATSD=false", "DISABLE_STATS=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr(), "RUNTIME_ROOT="+root,
		"RUNTIME_SUBDIRECTORY=limits", "RUNTIME_WATCH_ROOT=false",
		"LIMIT_RESPONSE_HEADERS_ENABLED=true", "RESPONSE_DYNAMIC_METADATA=true", "EXPIRATION_JITTER_MAX_SECONDS=0",
		"LOG_LEVEL=ERROR")
	testkit.StartAt(t, cmd, peer.Addr)
	_, at := startDecider(t, append(inRedis(redis), "RATELIMIT_CONFIG", folder, "RATELIMIT_CHARGE", "independent",
		"STORE_FAILURE_MODE", "closed", "RATE_LIMIT_HEADERS", "envoy", "RESPONSE_DYNAMIC_METADATA", "true")...)
	peer.Await("GET /healthcheck", 200, "")
	p := &twins{t: t, peer: "http://" + peer.Addr + "/json", weir: "http://" + at.Addr + "/json"}
	p.byGRPC = &twins{t: t, peer: calls, weir: at.Addr, calls: make(map[string]*grpc.ClientConn)}
	for _, addr := range []string{calls, at.Addr} {
		c := testkit.Must(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		t.Cleanup(func() { _ = c.Close() })
		p.byGRPC.calls[addr] = c
	}
	return p
}

// A said is an answer of /json, or by gRPC.
type said struct {
	Status      int `json:"-"`
	OverallCode string
	Statuses    []struct {
		Code               string
		CurrentLimit       *struct{ RequestsPerUnit, Unit, Name any }
		LimitRemaining     uint32
		DurationUntilReset string
	}
	ResponseHeadersToAdd []struct{ Key, Value string }
	DynamicMetadata      map[string]any
}

func (p *twins) post(url, body string) (s said) {
	p.t.Helper()
	if c := p.calls[url]; c != nil {
		return p.call(c, body)
	}
	res := testkit.Must(http.Post(url, "application/json", strings.NewReader(body)))(p.t)
	defer res.Body.Close()
	text := testkit.Must(io.ReadAll(res.Body))(p.t)
	s.Status = res.StatusCode
	if res.StatusCode == 200 || res.StatusCode == 429 {
		if err := json.Unmarshal(text, &s); err != nil {
			p.t.Fatalf("%s: %v", text, err)
		}
	}
	return s
}

// call asks by gRPC. The statuses are those of /json.
func (p *twins) call(c *grpc.ClientConn, body string) (s said) {
	p.t.Helper()
	q := new(service.RateLimitRequest)
	if err := protojson.Unmarshal([]byte(body), q); err != nil {
		p.t.Fatalf("%s: %v", body, err)
	}
	answer, err := service.NewRateLimitServiceClient(c).ShouldRateLimit(p.t.Context(), q)
	if err != nil {
		s.Status = 400
		return s
	}
	if err := json.Unmarshal(testkit.Must(protojson.Marshal(answer))(p.t), &s); err != nil {
		p.t.Fatalf("%v: %v", answer, err)
	}
	if s.Status = 200; answer.OverallCode == service.RateLimitResponse_OVER_LIMIT {
		s.Status = 429
	}
	return s
}

// seconds takes the seconds until the reset out of an answer.
func (s *said) seconds() (all []int) {
	for i := range s.Statuses {
		n, _ := strconv.Atoi(strings.TrimSuffix(s.Statuses[i].DurationUntilReset, "s"))
		s.Statuses[i].DurationUntilReset = ""
		all = append(all, n)
	}
	for i := range s.ResponseHeadersToAdd {
		if h := &s.ResponseHeadersToAdd[i]; h.Key == "RateLimit-Reset" {
			n, _ := strconv.Atoi(h.Value)
			h.Value = ""
			all = append(all, n)
		}
	}
	return all
}

// plain takes out of metadata what differs by version, and the spaces that protobuf writes
// at random.
func (s *said) plain() {
	delete(s.DynamicMetadata, "quotaModeEnabled")
	delete(s.DynamicMetadata, "quotaModeViolations")
	list, _ := s.DynamicMetadata["descriptors"].([]any)
	for _, one := range list {
		if d := one.(map[string]any); d["limit"] != nil {
			d["limit"] = strings.Join(strings.Fields(d["limit"].(string)), " ")
		}
	}
}

// differ says how two answers to a request differ that were given between two instants;
// empty: not at all. A second more until the reset is what passed between the store's answer
// and the one from memory.
func differ(weir, peer said, before, after time.Time) string {
	weir.plain()
	peer.plain()
	ours, theirs := weir.seconds(), peer.seconds()
	if !reflect.DeepEqual(weir, peer) {
		return "other answers"
	}
	for i := range ours {
		if spread := int(after.Unix()-before.Unix()) + 1; ours[i]-theirs[i] > spread || theirs[i]-ours[i] >= spread {
			return fmt.Sprintf("%d and %d seconds until the reset", ours[i], theirs[i])
		}
	}
	return ""
}

// A draw makes files and requests by a seed.
type draw struct {
	*rand.Rand
	units []string
}

func (d *draw) pick(some ...string) string { return some[d.IntN(len(some))] }

// odds is true one time in n.
func (d *draw) odds(n int) bool { return d.IntN(n) == 0 }

// descriptors writes a list of a file.
func (d *draw) descriptors(text *strings.Builder, indent string, depth int) {
	seen := make(map[string]bool)
	for range 1 + d.IntN(4) {
		key, value := d.pick("a", "b"), d.pick("", "x", "xy", "*", "x*")
		if d.odds(6) {
			key += "*" // one key with a value, without one all that begin like it
		}
		if seen[key+"="+value] {
			continue
		}
		seen[key+"="+value] = true
		fmt.Fprintf(text, "%s- key: %q\n", indent, key)
		if value != "" {
			fmt.Fprintf(text, "%s  value: %q\n", indent, value)
		}
		for _, flag := range []struct {
			name string
			n    int
		}{{"shadow_mode", 6}, {"detailed_metric", 4}, {"value_to_metric", 4}} {
			if d.odds(flag.n) {
				fmt.Fprintf(text, "%s  %s: true\n", indent, flag.name)
			}
		}
		if strings.HasSuffix(cmp.Or(value, key), "*") && d.odds(2) {
			fmt.Fprintf(text, "%s  share_threshold: true\n", indent)
		}
		switch {
		case d.odds(8):
			fmt.Fprintf(text, "%s  rate_limit: {unlimited: true}\n", indent)
		case d.odds(4):
			fmt.Fprintf(text, "%s  rate_limit: {unit: %s, requests_per_unit: %d, name: n%d, replaces: [{name: n%d}]}\n",
				indent, d.pick(d.units...), d.IntN(5), d.IntN(2), 2+d.IntN(2))
		case d.odds(4):
			fmt.Fprintf(text, "%s  rate_limit: {unit: %s, requests_per_unit: %d, name: n%d}\n", indent, d.pick(d.units...),
				d.IntN(5), 2+d.IntN(2))
		case !d.odds(5):
			fmt.Fprintf(text, "%s  rate_limit: {unit: %s, requests_per_unit: %d}\n", indent, d.pick(d.units...), d.IntN(5))
		}
		if depth < 3 && d.odds(2) {
			text.WriteString(indent + "  descriptors:\n")
			d.descriptors(text, indent+"    ", depth+1)
		}
	}
}

// A described is a descriptor of a request.
type described struct {
	Entries        []map[string]string `json:"entries"`
	Limit          map[string]any      `json:"limit,omitempty"`
	HitsAddend     any                 `json:"hits_addend,omitempty"`
	IsNegativeHits bool                `json:"is_negative_hits,omitempty"`
}

// An asked is a request.
type asked struct {
	Domain      string      `json:"domain"`
	Descriptors []described `json:"descriptors"`
	HitsAddend  int         `json:"hitsAddend,omitempty"`
	refunded    int         // is first charged to the first descriptor and given back, to Weir alone
}

// request makes one. A descriptor that brings a limit has a key that is in no file, as its
// count is another one there. No two descriptors have the same keys: which of two that are
// counted together comes first is not said.
func (d *draw) request() (r asked) {
	seen := make(map[string]bool)
	for range 1 + d.IntN(4) {
		one := described{Entries: []map[string]string{}}
		for range [...]int{0, 1, 1, 1, 1, 2, 2, 3}[d.IntN(8)] {
			one.Entries = append(one.Entries, map[string]string{"key": d.pick("a", "a", "a", "b", "b", "b", "b", "bc", "a*"),
				"value": d.pick("", "x", "x", "y", "xy", "xy", "xyz", "*", "x*")})
		}
		switch {
		case d.odds(10):
			limit := d.IntN(4) // of a key always the same, as a refusal is charged there
			one.Entries = append(one.Entries, map[string]string{"key": "own", "value": strconv.Itoa(limit)})
			one.Limit = map[string]any{"requests_per_unit": limit, "unit": "HOUR"}
		case d.odds(3): // looks, and charges that count in full
			one.HitsAddend = d.pick("0", "0", "1", "2", "9")
		}
		keys := ""
		for _, e := range one.Entries {
			keys += e["key"] + " "
		}
		if !seen[keys] {
			r.Descriptors = append(r.Descriptors, one)
		}
		seen[keys] = true
	}
	if d.odds(8) {
		r.HitsAddend = d.IntN(4)
	}
	if d.odds(4) {
		r.refunded = 1 + d.IntN(9)
	}
	return r
}

// hits is what a descriptor is charged.
func (r *asked) hits(i int) int {
	if h := r.Descriptors[i].HitsAddend; h != nil {
		n, _ := strconv.Atoi(h.(string))
		return n
	}
	return max(1, r.HitsAddend)
}

// known reports whether two answers have a known difference, and whether counts differ from now on.
func known(r *asked, weir, peer *said) (differs, apart bool) {
	if len(weir.Statuses) != len(peer.Statuses) || len(weir.Statuses) != len(r.Descriptors) {
		return false, false
	}
	for i := range weir.Statuses {
		ours, theirs, hits := &weir.Statuses[i], &peer.Statuses[i], r.hits(i)
		switch {
		// What is refused is not charged, if it is not known late: so less than what was wanted may be left.
		case theirs.LimitRemaining == 0 && ours.LimitRemaining > 0 && int(ours.LimitRemaining) < hits &&
			ours.Code == theirs.Code && r.Descriptors[i].HitsAddend == nil:
			return true, true
		// A look is refused when nothing is left; by the peer when something was refused before.
		case hits == 0 && ours.Code == "OVER_LIMIT" && theirs.Code == "OK" && ours.LimitRemaining == 0 &&
			theirs.LimitRemaining == 0:
			differs = true
		}
	}
	return differs, false
}

const (
	ratelimitSeeds    = 40
	ratelimitSeconds  = 8  // further seeds, with limits per second
	ratelimitRequests = 60 // of a seed; a fifth of limits per second
	ratelimitAttempts = 12 // of a seed, each with a domain of its own, until no window ends meanwhile
)

// namedLimits are those of the cases that have names.
const namedLimits = `
domain: named
descriptors:
  - {key: ten, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: one, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: a, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: a_b, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: middle, value: "x*z", rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: quota, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: five, rate_limit: {unit: year, requests_per_unit: 5}}
`

// ratelimitCalls is the variable with the number of calls by gRPC that are compared in addition, with further
// random files: RATELIMIT_CALLS=100000 go test ./proxy -run TestAsEnvoysRateLimit -timeout 1h -v
// It is also how many calls TestNoCallIsLost makes.
const ratelimitCalls = "RATELIMIT_CALLS"

// Random files and requests are answered as envoyproxy/ratelimit answers them: equal codes,
// counts, times until the reset, and fields. What differs has a name.
func TestAsEnvoysRateLimit(t *testing.T) {
	p := startTwins(t, randomFiles(0))
	t.Run("files", itsFiles)
	t.Run("random", p.random)
	t.Run("forms", p.forms)
	t.Run("differences", p.differences)
	calls, _ := strconv.Atoi(os.Getenv(ratelimitCalls))
	codes := make(map[string]int)
	for round := 1; codes["asked"] < calls && !t.Failed(); round++ {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			startTwins(t, randomFiles(round)).byGRPC.play(round, codes)
		})
	}
	if calls > 0 {
		t.Log(codes)
	}
}

// randomFiles are those of a round: the limits of each seed are those of several domains.
func randomFiles(round int) map[string]string {
	files := map[string]string{"named.yaml": namedLimits}
	for seed := range seedsOf(round) {
		var text strings.Builder
		text.WriteString("descriptors:\n")
		drawOf(seed).descriptors(&text, "  ", 1)
		for attempt := range ratelimitAttempts {
			name := fmt.Sprintf("s%d-%d", seed, attempt)
			files[name+".yaml"] = "domain: " + name + "\n" + text.String()
		}
	}
	return files
}

// seedsOf are the seeds of a round. The last of them have limits per second.
func seedsOf(round int) iter.Seq[int] {
	return func(yield func(int) bool) {
		const n = ratelimitSeeds + ratelimitSeconds
		for seed := round * n; seed < (round+1)*n && yield(seed); seed++ {
		}
	}
}

// bySecond reports whether limits of a seed may be per second.
func bySecond(seed int) bool { return seed%(ratelimitSeeds+ratelimitSeconds) >= ratelimitSeeds }

// itsFiles reads the files that envoyproxy/ratelimit brings as examples, and for its own tests. It
// refuses those of the names below.
func itsFiles(t *testing.T) {
	dir := testkit.Must(exec.Command("go", "list", "-C", "../bench/limits/decision/ratelimit", "-m", "-f", "{{.Dir}}",
		"github.com/envoyproxy/ratelimit").Output())(t)
	refused := []string{"bad_limit_unit", "bad_yaml", "duplicate_key", "empty_domain", "empty_key", "misspelled_key",
		"misspelled_key2", "non_map_list", "non_string_key",
		"replaces_empty", "replaces_self", "unlimited_with_unit"}
	count := 0
	for _, folder := range []string{"examples/ratelimit/config", "test/config",
		"test/integration/runtime/current/ratelimit/config"} {
		files := testkit.Must(filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), folder, "*.yaml")))(t)
		for _, file := range files {
			count++
			_, err := port.NewLimits(port.Source{Path: file}, new(testkit.LogRecords).Logger("DecisionService"))
			if want := slices.Contains(refused, strings.TrimSuffix(filepath.Base(file), ".yaml")); (err != nil) != want {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if count < 20 {
		t.Errorf("there are only %d files", count)
	}
}

// drawOf is the draw of a seed.
func drawOf(seed int) *draw {
	d := &draw{rand.New(rand.NewPCG(uint64(seed), 19)), []string{"minute", "hour", "day", "week", "month", "year"}}
	if bySecond(seed) {
		d.units = append(d.units, "second", "second", "second")
	}
	return d
}

func (p *twins) random(t *testing.T) {
	codes := make(map[string]int)
	p.play(0, codes)
	if codes["OVER_LIMIT"] < 100 || codes["OK"] < 500 || codes["limited"] < 300 || codes["unlimited"] < 20 ||
		codes["late"] < 50 || codes["look refused"] < 20 || codes["given back"] < 20 || codes["apart"] > ratelimitSeeds {
		t.Errorf("the test does not reach what it is about: %v", codes)
	}
}

// play compares the answers to the requests of a round: by gRPC, and if that is not p itself also by /json.
func (p *twins) play(round int, codes map[string]int) {
	p.t.Helper()
	for seed := range seedsOf(round) {
		d := drawOf(seed)
		d.descriptors(new(strings.Builder), "", 1)
		requests, window := make([]asked, ratelimitRequests), time.Minute
		if bySecond(seed) {
			requests, window = requests[:ratelimitRequests/5], time.Second
		}
		for i := range requests {
			requests[i] = d.request()
		}
		by := p
		if seed%2 == 1 && p.byGRPC != nil {
			by = p.byGRPC
		}
		for attempt := 0; !by.compare(fmt.Sprintf("s%d-%d", seed, attempt), requests, window, codes); attempt++ {
			if attempt == ratelimitAttempts-1 {
				p.t.Fatalf("seed %d: a window has ended during each of %d attempts", seed, ratelimitAttempts)
			}
		}
	}
}

// forms are ways to write requests that both take, or both refuse.
func (p *twins) forms(t *testing.T) {
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `{"domain":"named"}`, `{"domain":"","descriptors":[{}]}`,
		`{"domain":"named","descriptors":[{}]}`, `{"domain":"unknown","descriptors":[{}]}`,
		`{"domain":"named","descriptors":[{"entries":[{"key":"none"}]}],}`,
		`{"domain":"named","descriptors":[{"entries":[{"key":"none"}]}]} x`,
		`{"domain":"named","descriptors":[{"entries":[{"key":"none","value":5}]}]}`,
		`{"domain":"named","descriptors":[{"entries":[{"key":"none","velue":""}]}]}`,
		`{"domain":"named","domain":"named","descriptors":[{}]}`, `{"Domain":"named","descriptors":[{}]}`,
		`{"domain":null,"descriptors":[{}]}`, `{"domain":"named","descriptors":null}`,
		`{"domain":"named","descriptors":[null]}`,
		`{"domain":"named","descriptors":[{"entries":null,"limit":null,"hitsAddend":null}]}`,
		`{"domain":"named","descriptors":[{}],"hitsAddend":2}`, `{"domain":"named","descriptors":[{}],"hits_addend":"2"}`,
		`{"domain":"named","descriptors":[{}],"hits_addend":1,"hitsAddend":1}`,
		`{"domain":"named","descriptors":[{}],"hitsAddend":2.0}`,
		`{"domain":"named","descriptors":[{}],"hitsAddend":2e1}`, `{"domain":"named","descriptors":[{}],"hitsAddend":"2e1"}`,
		`{"domain":"named","descriptors":[{}],"hitsAddend":2.5}`, `{"domain":"named","descriptors":[{}],"hitsAddend":-1}`,
		`{"domain":"named","descriptors":[{}],"hitsAddend":4294967296}`,
		`{"domain":"named","descriptors":[{}],"hitsAddend":" 2"}`,
		`{"domain":"named","descriptors":[{}],"hitsAddend":""}`, `{"domain":"named","descriptors":[{}],"hitsAddend":true}`,
		`{"domain":"named","descriptors":[{}],"hitsAddend":-0}`, `{"domain":"named","descriptors":[{}],"hitsAddend":02}`,
		`{"domain":"named","descriptors":[{}],"hitsAddend":"02"}`,
		`{"domain":"named","descriptors":[{"hitsAddend":"7"}]}`,
		`{"domain":"named","descriptors":[{"hitsAddend":{"value":7}}]}`,
		`{"domain":"named","descriptors":[{"limit":{"requestsPerUnit":"3","unit":"DAY"}}]}`,
		`{"domain":"named","descriptors":[{"limit":{"requests_per_unit":3,"unit":4}}]}`,
		`{"domain":"named","descriptors":[{"limit":{"unit":"day"}}]}`,
		`{"domain":"named","descriptors":[{"limit":{"unit":"4"}}]}`,
		`{"domain":"\ud83d\ude00","descriptors":[{}]}`, `{"domain":"\ud83d","descriptors":[{}]}`,
		"{\"domain\":\"\xff\",\"descriptors\":[{}]}", "{\"domain\":\"a\nb\",\"descriptors\":[{}]}",
	} {
		if weir, peer := p.post(p.weir, body), p.post(p.peer, body); weir.Status != peer.Status {
			t.Errorf("%s: %d, %d by envoyproxy/ratelimit", body, weir.Status, peer.Status)
		}
	}
}

// differences are those that are meant.
func (p *twins) differences(t *testing.T) {
	one := func(key, value, more string) string {
		return fmt.Sprintf(`{"entries":[{"key":%q,"value":%q}]%s}`, key, value, more)
	}
	for _, test := range []struct{ name, descriptors, weir, peer string }{
		{"most of ten", one("ten", "x", `,"hitsAddend":8`), "OK OK:2", "OK OK:2"},
		{"a refusal tells what is left", one("ten", "x", "") + "#5", "OVER_LIMIT OVER_LIMIT:2", "OVER_LIMIT OVER_LIMIT:0"},
		{"and is not charged", one("ten", "x", ""), "OK OK:1", "OVER_LIMIT OVER_LIMIT:0"},
		{"one", one("one", "x", ""), "OK OK:0", "OK OK:0"},
		{"a look is refused when nothing is left", one("one", "x", `,"hitsAddend":0`), "OVER_LIMIT OVER_LIMIT:0", "OK OK:0"},
		{"refused", one("one", "x", ""), "OVER_LIMIT OVER_LIMIT:0", "OVER_LIMIT OVER_LIMIT:0"},
		{"and then a look is", one("one", "x", `,"hitsAddend":0`), "OVER_LIMIT OVER_LIMIT:0", "OVER_LIMIT OVER_LIMIT:0"},
		{"a key", one("a", "b_c", ""), "OK OK:0", "OK OK:0"},
		{"its parts have lengths", one("a_b", "c", ""), "OK OK:0", "OVER_LIMIT OVER_LIMIT:0"},
		{"a * in the middle", one("middle", "xyz", ""), "OK OK:2", "OK OK:0"}, // as the peer later than this version
		{"all quotas are over", one("quota", "x", ""), "OVER_LIMIT OVER_LIMIT:0", "OK OK:0"},
		{"one of two is", one("quota", "x", "") + "," + one("five", "x", ""), "OVER_LIMIT OVER_LIMIT:0 OK:4", "OK OK:0 OK:4"},
		{"hits given back", one("five", "x", `,"isNegativeHits":true`), "OK OK:5", "400"},
		{"charged", one("five", "y", ""), "OK OK:4", "OK OK:4"},
		{"a limit of its own counts apart", one("five", "y", `,"limit":{"requestsPerUnit":5,"unit":"YEAR"}`), "OK OK:4",
			"OK OK:3"},
		{"a week of its own", one("five", "y", `,"limit":{"requestsPerUnit":5,"unit":"WEEK"}`), "OK OK:4", "400"},
	} {
		descriptors, hits, _ := strings.Cut(test.descriptors, "#")
		body := `{"domain":"named","descriptors":[` + descriptors + `],"hitsAddend":` + cmp.Or(hits, "0") + `}`
		if weir, peer := p.post(p.weir, body).short(), p.post(p.peer, body).short(); weir != test.weir || peer != test.peer {
			t.Errorf("%s: %s, and %s by envoyproxy/ratelimit; want %s, and %s", test.name, weir, peer, test.weir, test.peer)
		}
	}
}

// short is the codes of an answer and what is left.
func (s said) short() string {
	if s.OverallCode == "" {
		return strconv.Itoa(s.Status)
	}
	text := s.OverallCode
	for _, one := range s.Statuses {
		text += fmt.Sprintf(" %s:%d", one.Code, one.LimitRemaining)
	}
	return text
}

// refund charges the first descriptor of a request and gives the same back, which is as if nothing had
// happened, and reports whether it had a limit. envoyproxy/ratelimit cannot give back.
func (p *twins) refund(r asked) bool {
	if r.refunded == 0 {
		return false
	}
	one := r.Descriptors[0]
	one.HitsAddend = strconv.Itoa(r.refunded)
	var last said
	for _, one.IsNegativeHits = range []bool{false, true} {
		body := testkit.Must(json.Marshal(asked{Domain: r.Domain, Descriptors: []described{one}}))(p.t)
		last = p.post(p.weir, string(body))
	}
	return len(last.Statuses) == 1 && last.Statuses[0].CurrentLimit != nil
}

// compare asks both, and reports whether they were asked within one window.
func (p *twins) compare(domain string, requests []asked, window time.Duration, codes map[string]int) bool {
	p.t.Helper()
	began := time.Now()
	for i := range requests {
		r := requests[i]
		r.Domain = domain
		body := testkit.Must(json.Marshal(r))(p.t)
		if p.refund(r) {
			codes["given back"]++
		}
		before := time.Now()
		weir, peer := p.post(p.weir, string(body)), p.post(p.peer, string(body))
		differs, apart := known(&r, &weir, &peer)
		if after := time.Now(); after.Truncate(window) != began.Truncate(window) {
			return false
		} else if apart {
			codes["apart"]++
			return true
		} else if how := differ(weir, peer, before, after); how != "" && !differs {
			p.t.Fatalf("request %d, %s: %s\nweir %+v\npeer %+v", i, body, how, weir, peer)
		}
		codes["asked"]++
		codes[weir.OverallCode]++
		for i, s := range weir.Statuses {
			if s.Code == "OVER_LIMIT" && r.hits(i) == 0 {
				codes["look refused"]++
			} else if s.Code == "OVER_LIMIT" && r.Descriptors[i].HitsAddend != nil {
				codes["late"]++
			}
			if s.CurrentLimit != nil {
				codes["limited"]++
			} else if s.LimitRemaining > 0 {
				codes["unlimited"]++
			}
		}
	}
	return true
}

// asRatelimit returns a command that runs the proxy under the name of envoyproxy/ratelimit, with variables of that
// program, and its ports for HTTP, gRPC and debugging.
func asRatelimit(t *testing.T, env ...string) (cmd *exec.Cmd, http, grpc, debug string) {
	t.Helper()
	http, grpc, debug = testkit.FreePort(t), testkit.FreePort(t), testkit.FreePort(t)
	cmd = testkit.Command(t, append([]string{"HOST", "127.0.0.1", "GRPC_HOST", "127.0.0.1", "DEBUG_HOST", "127.0.0.1",
		"PORT", http, "GRPC_PORT", grpc, "DEBUG_PORT", debug, "EVENT_LOOPS", "1"}, env...))
	cmd.Args[0] = "/bin/ratelimit"
	return cmd, http, grpc, debug
}

// Started as ratelimit, the proxy reads the variables of envoyproxy/ratelimit, and answers where that does.
func TestStartedAsRatelimit(t *testing.T) {
	redis := redistest.Start(t)
	root := t.TempDir()
	folder := filepath.Join(root, "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "shop.yaml")
	testkit.WriteFile(t, file, "domain: shop\ndescriptors:\n- key: one\n  rate_limit: {unit: year, requests_per_unit: 1}\n")
	metrics := testkit.FreePort(t)
	statsd := testkit.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer statsd.Close()
	_, statsdPort, _ := net.SplitHostPort(statsd.LocalAddr().String())
	cmd, http, calls, debug := asRatelimit(t, "RUNTIME_ROOT", root, "RUNTIME_SUBDIRECTORY", "ratelimit",
		"RUNTIME_WATCH_ROOT", "false", "RUNTIME_IGNOREDOTFILES", "true", "LOG_LEVEL", "INFO", "STATSD_HOST", "127.0.0.1",
		"STATSD_PORT", statsdPort, "STATS_FLUSH_INTERVAL", "10ms",
		"REDIS_SOCKET_TYPE", "tcp", "REDIS_URL", redis.Addr(), "TRACING_ENABLED", "true", "USE_PROMETHEUS", "true",
		"PROMETHEUS_ADDR", "127.0.0.1:"+metrics, "PROMETHEUS_PATH", "/m")
	p := testkit.Launch(t, cmd, "INFO Proxy - Ready addr=")
	for _, line := range []string{"INFO Proxy - REDIS_URL is read as REDIS_HOST",
		"INFO Proxy - RUNTIME_ROOT is read as RATELIMIT_CONFIG",
		"WARN Proxy - TRACING_ENABLED has no meaning here: traces are not sent"} {
		p.Logged(line)
	}
	const look = `{"domain":"shop","descriptors":[{"entries":[{"key":"one","value":"x"}]}]}`
	p.At(calls).Require("GET /healthcheck", 200, "OK")
	p.At(http).Require("GET /healthcheck", 200, "OK")
	p.At(http).Require("POST /json", 200, `"overallCode":"OK"`, look)
	res, refused := p.At(http).Do("POST /json", look)
	if res.StatusCode != 429 || !strings.HasPrefix(refused, `{"overallCode":"OVER_LIMIT",`) ||
		strings.Contains(refused, "responseHeadersToAdd") || strings.Contains(refused, "rawBody") {
		t.Errorf("%d %s, want a refusal that adds nothing to the answer for the client", res.StatusCode, refused)
	}
	conn := testkit.Must(grpc.NewClient("127.0.0.1:"+calls, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	said := testkit.Must(service.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &service.RateLimitRequest{
		Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{
			{Key: "one", Value: "y"}}}}}))(t)
	if said.OverallCode != service.RateLimitResponse_OK || said.Statuses[0].LimitRemaining != 0 {
		t.Errorf("by gRPC: %v", said)
	}
	const over = `ratelimit_service_rate_limit_over_limit{domain="shop",key1="one"} 1`
	p.At(debug).Require("GET /metrics", 200, over)
	p.At(metrics).Require("GET /m", 200, over)
	if err := statsd.SetReadDeadline(time.Now().Add(testkit.Timeout)); err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, 2000)
	for sent := ""; !strings.Contains(sent, "ratelimit.service.rate_limit.shop.one.over_limit:1|c\n"); {
		n, _, err := statsd.ReadFrom(packet)
		if err != nil {
			t.Fatalf("statsd got %q, %v", sent, err)
		}
		sent += string(packet[:n])
	}
	p.At(metrics).Require("GET /config/limits", 404, "metrics are at /m")
	p.At(debug).Require("GET /rlconfig", 200, "shop.one: unit=YEAR requests_per_unit=1, shadow_mode: false")

	testkit.WriteFile(t, file, "domain: shop\ndescriptors: [{key: one, rate_limit: {unit: aeon}}]\n")
	p.Logged("ERROR DecisionService - RUNTIME_ROOT, RUNTIME_SUBDIRECTORY ignored, the previous limits stay in force")
	p.At(http).Require("POST /json", 429, "", look)
}

// Under the name of envoyproxy/ratelimit -help shows the defaults that are in force there.
func TestHelpAsRatelimit(t *testing.T) {
	for _, test := range []struct {
		env                  []string
		about, port, failure string
	}{
		{nil, "The environment is that of envoyproxy/ratelimit: ", "6070", "closed"},
		{[]string{"SETTINGS_FROM", "weir"}, "Every setting is an environment variable and a flag; ", "8082", "open"},
	} {
		cmd := testkit.Command(t, test.env, "-help")
		cmd.Args[0] = "/bin/ratelimit"
		said, _ := testkit.RequireExit(t, cmd, 0)
		for _, part := range []string{"\n" + test.about, `\nPORT +-port +` + test.port + " ",
			`\nSTORE_FAILURE_MODE +-store-failure-mode +` + test.failure + " "} {
			if !regexp.MustCompile(part).MatchString(said) {
				t.Errorf("%v: -help lacks %q", test.env, part)
			}
		}
	}
}

// -check-ratelimit says whether files are right, and does nothing else.
func TestCheckRatelimit(t *testing.T) {
	folder := t.TempDir()
	testkit.WriteFile(t, filepath.Join(folder, "a.yaml"), "domain: a\ndescriptors: [{key: k}]\n")
	testkit.WriteFile(t, filepath.Join(folder, "b.yaml.bak"), "domain: a\n")
	said, _ := testkit.RequireExit(t, testkit.Command(t, nil, "-check-ratelimit", folder), 0)
	if said != folder+": all right: files=1 domains=1 limits=0 skipped=1\n" {
		t.Errorf("told %q", said)
	}
	again := filepath.Join(folder, "b.yaml")
	testkit.WriteFile(t, again, "domain: a\n")
	testkit.RequireExit(t, testkit.Command(t, []string{"MERGE_DOMAIN_CONFIG", "true"}, "-check-ratelimit", folder), 0)
	if _, line := testkit.RequireExit(t, testkit.Command(t, nil, "-check-ratelimit", folder), 2); !strings.Contains(line,
		again+`: line 1: domain: is that of another file too, "a"`) || strings.Count(line, "\n") != 1 {
		t.Errorf("told %q", line)
	}
}
