package speed

import "weir/bench/lab/rig"

// nginxHead is the common part of the nginx configurations.
const nginxHead = `
daemon off; worker_processes %[3]d; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 8192; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 3600s;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
`

// nginxStatic is a target with a short answer.
const nginxStatic = nginxHead + `
  server { listen %[2]s reuseport; location / { default_type text/plain; return 200 "OK"; } }
}`

// nginxLimiting is a proxy with limit_req: one zone that admits everything, and one that refuses
// nearly everything. nginx does not count requests with an empty key, as $server_name is here, so
// the key is the port.
const nginxLimiting = nginxHead + `
  limit_req_status 429; limit_req_log_level info;
  limit_req_zone $server_port zone=open:1m rate=1000000r/s;
  limit_req_zone $server_port zone=shut:1m rate=1r/m;
  upstream target { server %[4]s; keepalive 128; keepalive_requests 1000000000; }
  server { listen %[2]s reuseport;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header Host $http_host;
    location / { limit_req zone=open burst=100000 nodelay; proxy_pass http://target; }
    location /shut { limit_req zone=shut; proxy_pass http://target; }
  }
}`

// haproxyLimiting is HAProxy with a limit in a stick table: all requests share one entry, and one
// path refuses nearly everything.
const haproxyLimiting = `
global
  nbthread %[3]d
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
  bind %[2]s
  stick-table type integer size 1m expire 10s store http_req_rate(10s)
  http-request track-sc0 int(1)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000000 }
  http-request deny deny_status 429 if { path /shut } { sc_http_req_rate(0) gt 1 }
  http-request set-header X-Forwarded-For %%[src]
  default_backend target
backend target
  server target %[4]s maxconn 128
`

// limiter returns a peer as a side that limits in front of the target.
func limiter(name string, p rig.Peer, workers int) side {
	return side{name: name, start: func(l *lab, target, _ string) (*rig.Process, string) {
		return l.StartPeer(p, workers, target)
	}}
}

// limiters returns nginx, and HAProxy if it is installed.
func limiters(workers int) []side {
	sides := []side{limiter("nginx limit_req", rig.Nginx(nginxLimiting), workers)}
	if rig.RequireInstalled("haproxy") == nil {
		sides = append(sides, limiter("HAProxy stick-table", rig.HAProxy(haproxyLimiting), workers))
	}
	return sides
}
