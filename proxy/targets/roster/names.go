package roster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/program/metric"
	"weir/internal/timing/every"
	"weir/proxy/targets/upstream"
)

const (
	// addressesMax bounds the addresses of one name that become targets.
	addressesMax = 128
	// lookupTimeout bounds the lookup of one name.
	lookupTimeout = 5 * time.Second
)

// A LookupFunc resolves a host; network is ip4 or ip6. net.Resolver.LookupNetIP is one.
type LookupFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

// names are the hosts of the declared targets, which are resolved periodically. Each
// address is a separate target. Until a lookup has found one, the name itself is the
// target, and every connect resolves it.
//
// List.mu guards known; the counters are atomic.
type names struct {
	lookup   LookupFunc
	interval time.Duration // between two lookups; 0: no lookups
	changed  chan struct{} // signalled when the declared targets have changed
	known    map[string]*name

	answered, empty, failed, refused metric.Counter
}

// A name is a host that is resolved.
type name struct {
	resolved *upstream.ResolvedAddrs
	fault    string // why the last lookup found nothing; empty: it succeeded
	full     bool   // the last answer had too many addresses
}

func newNames(lookup LookupFunc, interval time.Duration) *names {
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	return &names{lookup: lookup, interval: interval, changed: make(chan struct{}, 1), known: make(map[string]*name)}
}

// follow sets the names to those of the declared targets.
func (n *names) follow(declared []*Target) {
	known := make(map[string]*name)
	for _, t := range declared {
		host, _ := t.hostOf()
		if host == "" || n.interval <= 0 {
			continue
		}
		if known[host] = n.known[host]; known[host] == nil {
			known[host] = &name{resolved: upstream.NewResolvedAddrs(addressesMax)}
		}
	}
	n.known = known
	every.Notify(n.changed)
}

// expand replaces declared targets by one per address of their names.
func (n *names) expand(declared []*Target) (list []*Target) {
	for _, t := range declared {
		host, port := t.hostOf()
		var addrs []netip.Addr
		if known := n.known[host]; known != nil {
			addrs = known.resolved.Addrs()
		}
		if len(addrs) == 0 {
			list = append(list, t)
		}
		for _, addr := range addrs {
			member := *t
			member.Addr = net.JoinHostPort(addr.String(), port)
			list = append(list, &member)
		}
	}
	return list
}

// looking resolves all names, once per interval and when the declared targets change,
// until ctx ends.
func (l *List) looking(ctx context.Context) {
	tick := time.NewTicker(l.names.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.names.changed:
		case <-tick.C:
		}
		l.lookAll(ctx)
	}
}

func (l *List) lookAll(ctx context.Context) {
	var hosts []string
	l.mu.Lock()
	for host := range l.names.known {
		hosts = append(hosts, host)
	}
	l.mu.Unlock()
	eachAtOnce(hosts, func(host string) {
		answer, err := l.names.look(ctx, host)
		if ctx.Err() == nil {
			l.looked(host, answer, err)
		}
	})
}

// look resolves a name. The families are queried separately, so that the failure of one
// does not remove the other's addresses. The error is for the log; it is nil if there is
// an address.
func (n *names) look(ctx context.Context, host string) (a upstream.LookupResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var six []netip.Addr
	var err6 error
	var other sync.WaitGroup
	other.Go(func() { six, err6 = n.lookup(ctx, "ip6", host) })
	a.Addrs, err = n.lookup(ctx, "ip4", host)
	other.Wait()
	a.Unknown4, a.Unknown6 = unanswered(err), unanswered(err6)
	a.Addrs = routed(append(a.Addrs, six...))
	if len(a.Addrs) > 0 {
		return a, nil
	}
	if err != nil && err6 != nil && err.Error() == err6.Error() {
		return a, err // not twice
	}
	return a, errors.Join(err, err6)
}

// unanswered reports whether a lookup failed, as opposed to an answer that there is no
// such address.
func unanswered(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return !dns.IsNotFound
	}
	_, none := errors.AsType[*net.AddrError](err) // from /etc/hosts, with addresses of the other family only
	return err != nil && !none
}

// routed removes the addresses that this machine has no route to, typically those of IPv6
// where there is none. Connecting a UDP socket sends nothing.
func routed(addrs []netip.Addr) []netip.Addr {
	for i, addr := range addrs {
		addrs[i] = addr.Unmap()
	}
	with := slices.DeleteFunc(slices.Clone(addrs), func(addr netip.Addr) bool {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
		if err == nil {
			_ = c.Close()
		}
		return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EADDRNOTAVAIL)
	})
	if len(with) == 0 {
		return addrs // connecting to them will fail
	}
	return with
}

// looked stores the result of a lookup, and makes its addresses the targets.
func (l *List) looked(host string, a upstream.LookupResult, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.names.known[host]
	if n == nil {
		return // the name is no longer used
	}
	fault, counter := "", &l.names.answered
	switch {
	case len(a.Addrs) > 0:
	case a.Unknown4 || a.Unknown6:
		fault, counter = "the lookup failed", &l.names.failed
	default:
		fault, counter = "there is no address", &l.names.empty
	}
	counter.Inc()
	l.reportFault(host, n, fault, err)
	changed, refused := n.resolved.Answered(a)
	l.names.refused.Add(uint64(refused))
	if full := refused > 0; full != n.full && len(a.Addrs) > 0 {
		if n.full = full; full {
			l.cfg.Log.Warn("A target's name has too many addresses, some are not used", "name", host, "addresses",
				len(a.Addrs), "used", addressesMax)
		}
	}
	if changed {
		l.cfg.Log.Info("A target's name has new addresses", "name", host, "addresses", n.resolved.Addrs())
		l.setSpecs()
	}
}

// reportFault logs when lookups of a name start to fail, fail for another reason, or succeed
// again.
func (l *List) reportFault(host string, n *name, fault string, err error) {
	if fault == n.fault {
		return
	}
	if n.fault = fault; fault == "" {
		l.cfg.Log.Info("A target's name resolves again", "name", host)
		return
	}
	l.cfg.Log.Warn("A target's name does not resolve, its previous addresses stay in use", "name", host, "reason",
		fault, "error", err)
}

// register adds the metrics of lookups to set.
func (n *names) register(set *metric.Set) {
	const lookups = "lookups of targets' names"
	set.Counter(`ratelimiter_upstream_lookups_total{result="answered"}`, lookups, n.answered.Load)
	set.Counter(`ratelimiter_upstream_lookups_total{result="empty"}`, lookups, n.empty.Load)
	set.Counter(`ratelimiter_upstream_lookups_total{result="failed"}`, lookups, n.failed.Load)
	set.Counter("ratelimiter_upstream_addresses_refused_total",
		"addresses in answers that were ignored because a name has too many", n.refused.Load)
}
