package main

import (
	"fmt"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	config "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/test/testkit"
)

// route is how Envoy Gateway names a route that is for every host.
const route = "httproute/default/shop/rule/0/match/0/*"

// level is a descriptor of Envoy Gateway: key=value, with a limit per year unless that is 0, and those below it.
func level(entry string, perYear uint32, below ...*config.RateLimitDescriptor) *config.RateLimitDescriptor {
	key, value, _ := strings.Cut(entry, "=")
	d := &config.RateLimitDescriptor{Key: key, Value: value, Descriptors: below}
	if perYear > 0 {
		d.RateLimit = &config.RateLimitPolicy{Unit: config.RateLimitUnit_YEAR, RequestsPerUnit: perYear}
	}
	return d
}

// gatewayLimits have the forms in which Envoy Gateway sends the limits of its policies: those of a listener's routes,
// and of a policy whose routes share them.
func gatewayLimits() []*config.RateLimitConfig {
	shadow := level("masked_remote_address=0.0.0.0/0", 1)
	shadow.ShadowMode = true
	return []*config.RateLimitConfig{
		{Name: "default/eg/http", Domain: "default/eg/http", Descriptors: []*config.RateLimitDescriptor{
			level(route+"="+route, 0,
				level("rule-0-match-0=rule-0-match-0", 10),
				level("rule-1-match-0", 1),          // for each value
				level("rule-1-match-0=client-a", 2), // instead for this one
				level("rule-2-match-0=rule-2-match-0", 0, level("rule-2-match-1=rule-2-match-1", 0, shadow)),
				level("masked_remote_address=192.168.0.0/16", 0, level("remote_address", 1),
					level("remote_address=192.168.0.10", 2)))}},
		{Name: "default/policy", Domain: "default/policy", Descriptors: []*config.RateLimitDescriptor{
			level("default/policy/rule/0=default/policy/rule/0", 0, level("rule-0-match-0=rule-0-match-0", 3))}},
	}
}

// Limits in the forms of Envoy Gateway decide as its policies mean them, also those with a cost that is known only at
// the end of a request: it asks with 0, and is charged later.
func TestLimitsOfEnvoyGateway(t *testing.T) {
	g := &gateway{t: t, configs: make(chan []*config.RateLimitConfig, 1), said: make(chan *discovery.DiscoveryRequest, 8)}
	g.configs <- gatewayLimits()
	cmd, _, calls, debug := asRatelimit(t, "CONFIG_TYPE", "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL", g.serve())
	testkit.StartAt(t, cmd, "127.0.0.1:"+debug)
	<-g.said
	if next := <-g.said; next.VersionInfo == "" || next.ErrorDetail != nil {
		t.Fatalf("said %v", next)
	}
	conn := testkit.Must(grpc.NewClient("127.0.0.1:"+calls, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	const late = "rule-0-match-0=rule-0-match-0"
	for _, test := range []struct {
		domain, below string
		hits          int // -1: not said
		want          string
	}{
		{"default/eg/http", late, 0, "OK 10 of 10"}, // a look
		{"default/eg/http", late, 7, "OK 3 of 10"},
		{"default/eg/http", late, 0, "OK 3 of 10"},
		{"default/eg/http", late, 150, "OVER_LIMIT 0 of 10"}, // charged nevertheless
		{"default/eg/http", late, 0, "OVER_LIMIT 0 of 10"},
		{"default/eg/http", "rule-1-match-0=client-b", -1, "OK 0 of 1"},
		{"default/eg/http", "rule-1-match-0=client-b", -1, "OVER_LIMIT 0 of 1"},
		{"default/eg/http", "rule-1-match-0=client-c", -1, "OK 0 of 1"},
		{"default/eg/http", "rule-1-match-0=client-a", -1, "OK 1 of 2"},
		{"default/eg/http", "rule-2-match-0=rule-2-match-0 rule-2-match-1=rule-2-match-1 masked_remote_address=0.0.0.0/0",
			2, "OK 0 of 1"}, // in shadow
		{"default/eg/http", "rule-2-match-0=rule-2-match-0 rule-2-match-1=rule-2-match-1", -1, "OK, no limit"},
		{"default/eg/http", "masked_remote_address=192.168.0.0/16 remote_address=192.168.0.9", -1, "OK 0 of 1"},
		{"default/eg/http", "masked_remote_address=192.168.0.0/16 remote_address=192.168.0.10", -1, "OK 1 of 2"},
		{"default/policy", late, -1, "OK 2 of 3"},
		{"default/other", late, -1, "OK, no limit"},
	} {
		top := map[string]string{"default/policy": "default/policy/rule/0"}[test.domain]
		if top == "" {
			top = route
		}
		d := new(common.RateLimitDescriptor)
		for entry := range strings.FieldsSeq(top + "=" + top + " " + test.below) {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		if test.hits >= 0 {
			d.HitsAddend = wrapperspb.UInt64(uint64(test.hits))
		}
		answer := testkit.Must(service.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(),
			&service.RateLimitRequest{Domain: test.domain, Descriptors: []*common.RateLimitDescriptor{d}}))(t)
		have := answer.OverallCode.String() + ", no limit"
		if s := answer.Statuses[0]; s.CurrentLimit != nil {
			have = fmt.Sprintf("%v %d of %d", answer.OverallCode, s.LimitRemaining, s.CurrentLimit.RequestsPerUnit)
		}
		if have != test.want {
			t.Errorf("%s %s, hits %d: %s, want %s", test.domain, test.below, test.hits, have, test.want)
		}
	}
}
