package speed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"weir/bench/rig"
	"weir/internal/freeport"
)

// nginxHead is what all our nginx configurations share: one worker, as our
// programs are measured with one loop.
const nginxHead = `
daemon off; worker_processes %d; pid %[2]s/pid; error_log %[2]s/error.log;
events { worker_connections 8192; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 3600s;
  client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy; fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s;
`

// nginxStatic is a target: a small answer from memory.
const nginxStatic = nginxHead + `
  server { listen %[3]s reuseport; location / { default_type text/plain; return 200 "OK"; } }
}`

// nginxLimiting is a proxy with limit_req: one zone that lets everything through
// and one that refuses nearly everything. nginx does not count requests whose
// key is empty, as $server_name is here: the port is the same for all.
const nginxLimiting = nginxHead + `
  limit_req_status 429; limit_req_log_level info;
  limit_req_zone $server_port zone=open:1m rate=1000000r/s;
  limit_req_zone $server_port zone=shut:1m rate=1r/m;
  upstream target { server %[4]s; keepalive 128; keepalive_requests 1000000000; }
  server { listen %[3]s reuseport;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header Host $http_host;
    location / { limit_req zone=open burst=100000 nodelay; proxy_pass http://target; }
    location /shut { limit_req zone=shut; proxy_pass http://target; }
  }
}`

// nginx runs a configuration in a folder of its own below dir.
func nginx(ctx context.Context, dir, config string, workers int, args ...any) (*rig.Process, string, error) {
	addr, err := freeport.Addr()
	if err != nil {
		return nil, "", err
	}
	home, err := os.MkdirTemp(dir, "nginx-")
	if err != nil {
		return nil, "", err
	}
	text := fmt.Sprintf(config, append([]any{workers, home, addr}, args...)...)
	file := filepath.Join(home, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	p, err := rig.StartPeer(ctx, "nginx", addr, "nginx", "-p", home, "-c", file)
	return p, addr, err
}
