package drive

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/test/testkit"
)

func addresses(list ...string) (all []netip.Addr) {
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

func TestParseSources(t *testing.T) {
	for text, want := range map[string][]netip.Addr{
		"127.0.0.1":                   addresses("127.0.0.1"),
		" 127.0.0.9 ,127.1.2.3":       addresses("127.0.0.9", "127.1.2.3"),
		"127.0.0.6/30":                addresses("127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7"),
		"::1, 127.0.0.1/32":           addresses("::1", "127.0.0.1"),
		"127.255.255.254/31":          addresses("127.255.255.254", "127.255.255.255"),
		"127.0.0.1,127.0.0.2,::1/128": addresses("127.0.0.1", "127.0.0.2", "::1"),
	} {
		if got, err := ParseSources(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	if got, err := ParseSources("127.3.0.0/22"); err != nil || len(got) != sourcesMax {
		t.Errorf("at the bound: %d addresses, %v", len(got), err)
	}
	for text, want := range map[string]string{
		"":                       `"" is not an address`,
		"localhost":              `"localhost" is not an address`,
		"127.0.0.1,":             `"" is not an address`,
		"127.0.0.1/33":           `"127.0.0.1/33" is not an address`,
		"127.0.0.0/22,127.0.9.1": "has more than 1024 addresses",
		"127.0.0.1,192.0.2.1":    "has 192.0.2.1, from which this machine cannot connect: ",
	} {
		if _, err := ParseSources(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// More connections than a pair of addresses has ports for start from several
// addresses, and only to loopback without being told to.
func TestChooseSources(t *testing.T) {
	ports := portsOf(portRangeFile)
	each := ports * 2 / 5
	here := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	for _, c := range []struct {
		given       []netip.Addr
		target      string
		connections int
		want        []netip.Addr
		fault       string // path and beginning
	}{
		{nil, "127.0.0.1:80", 0, nil, ""},
		{nil, "127.0.0.1:80", each, nil, ""},
		{nil, "127.0.0.1:80", each + 1, addresses(here[:2]...), ""},
		{nil, "127.0.0.9:80", 3 * each, addresses(here...), ""},
		{nil, "192.0.2.1:80", ports, nil, ""},
		{nil, "192.0.2.1:80", ports + 1, nil,
			fmt.Sprintf("concurrency: must be at most %d, because two addresses have ports for", ports)},
		{nil, "[::1]:80", ports + 1, nil, "concurrency: must be at most"},
		{addresses("127.0.0.7"), "127.0.0.1:80", ports, addresses("127.0.0.7"), ""},
		{addresses("127.0.0.7"), "127.0.0.1:80", ports + 1, nil, "concurrency: must be at most"},
		{addresses("127.0.0.7", "::1"), "[::1]:80", 1, addresses("::1"), ""},
		{addresses("127.0.0.7", "::1"), "127.0.0.1:80", 1, addresses("127.0.0.7"), ""},
		{addresses("::1"), "127.0.0.1:80", 1, nil,
			"limiterUrl: has the address 127.0.0.1, which cannot be reached from ::1 (SOURCE_ADDRESSES)"},
	} {
		got, err := chooseSources(c.given, c.target, c.connections, 1)
		if c.fault != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.fault) {
				t.Errorf("%+v: error %v", c, err)
			}
		} else if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

// Shards with the same target on loopback share the ports of its addresses.
func TestChooseSourcesOfShards(t *testing.T) {
	each := portsOf(portRangeFile) * 2 / 5
	for _, c := range []struct{ connections, shards, want int }{{each / 3, 3, 0}, {each/3 + 1, 3, 2}, {each, 5, 5},
		{60_000, 10_000, sourcesMax}, {1, 10_000, 0}, {0, 9, 0}} {
		if got, err := chooseSources(nil, "127.0.0.1:80", c.connections, c.shards); err != nil || len(got) != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

func TestPortsOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "range")
	for text, want := range map[string]int{"1000\t1009\n": 10, "32768 60999": 28232, "9 8": portsUsual,
		"x": portsUsual, "": portsUsual} {
		testkit.WriteFile(t, file, text)
		if got := portsOf(file); got != want {
			t.Errorf("%q: %d ports, want %d", text, got, want)
		}
	}
	if got := portsOf(file + ".absent"); got != portsUsual {
		t.Errorf("without the file: %d ports, want %d", got, portsUsual)
	}
}

// Connections come from all the addresses given, all are there before the
// schedule begins, and each carries requests as usual.
func TestConnectionsFromSources(t *testing.T) {
	var mu sync.Mutex
	from := map[string]int{}
	b, s := against(t, func(c *served) {
		mu.Lock()
		from[c.RemoteAddr().(*net.TCPAddr).IP.String()]++
		mu.Unlock()
		answerAll(ok)(c)
	})
	config := load(s.addr, 50, 600) // it is stopped when all of them are there
	config.Concurrency = 300
	run, err := Start("t1", planOf(t, config), Settings{
		Loops: 2, Metrics: b.meters, Logger: func(string) *slog.Logger { return slog.New(slog.DiscardHandler) },
		Sources: addresses("127.0.0.1", "127.0.0.2", "127.0.0.3"),
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the target has all connections, and requests", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return from["127.0.0.1"]+from["127.0.0.2"]+from["127.0.0.3"] >= 300 && s.requests.Load() >= 100
	})
	run.Stop()
	r := b.finish(run)
	if r.Errors != 0 || r.Connections.Opened != 300 || r.Connections.Peak != 300 {
		t.Errorf("%d of %d succeeded over %+v, errors %v", r.Success, r.Sent, r.Connections, r.ErrorsByReason)
	}
	mu.Lock()
	defer mu.Unlock()
	if from["127.0.0.1"] != 100 || from["127.0.0.2"] != 100 || from["127.0.0.3"] != 100 {
		t.Errorf("connections come from %v, want 100 of each", from)
	}
}

// Many connections are given the time that dialling them takes, but a start that
// others share is not put off for them.
func TestPatience(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		connections int
		ahead       time.Duration // of StartAt; 0: none
		want        time.Duration
	}{
		{5, 0, time.Second + time.Millisecond},
		{50_000, 0, 11 * time.Second},
		{50_000, 11 * time.Second, 11 * time.Second},
		{50_000, 4 * time.Second, 4 * time.Second},
		{50_000, 10 * time.Millisecond, time.Second},
		{50_000, -time.Millisecond, time.Second},
	} {
		config := load("a", 1, 1)
		config.Concurrency = c.connections
		p := planOf(t, config)
		if c.ahead != 0 {
			p.StartAt = now.Add(c.ahead)
		}
		conductor := &conductor{Run: &Run{plan: p, loops: 2, poolMax: c.connections}}
		if got := conductor.patience(now); got != c.want-2*startAhead {
			t.Errorf("%d connections, start in %v: waits %v, want %v", c.connections, c.ahead, got, c.want-2*startAhead)
		}
	}
}
