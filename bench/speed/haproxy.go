package speed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"weir/bench/rig"
	"weir/internal/freeport"
)

// haproxyLimiting is HAProxy with a limit by a stick table: one entry that all
// requests count against, and a path that refuses nearly everything.
const haproxyLimiting = `
global
  nbthread %d
  maxconn 4000
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout http-keep-alive 1h
  option http-keep-alive
  http-reuse always
frontend front
  bind %s
  stick-table type integer size 1m expire 10s store http_req_rate(10s)
  http-request track-sc0 int(1)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000000 }
  http-request deny deny_status 429 if { path /shut } { sc_http_req_rate(0) gt 1 }
  http-request set-header X-Forwarded-For %%[src]
  default_backend target
backend target
  server target %s maxconn 128
`

// haproxy runs HAProxy in front of target.
func haproxy(ctx context.Context, dir string, threads int, target string) (*rig.Process, string, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "haproxy-"+strconv.Itoa(threads)+".cfg")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(haproxyLimiting, threads, addr, target)), 0o600); err != nil {
		return nil, "", err
	}
	p, err := rig.StartPeer(ctx, "haproxy", addr, "haproxy", "-db", "-f", file)
	return p, addr, err
}
