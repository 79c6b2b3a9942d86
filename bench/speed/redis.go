package speed

import (
	"fmt"
	"os"
	"strings"

	"weir/bench/rig"
)

// luaModule is where Debian's libnginx-mod-http-lua is.
const luaModule = "/usr/lib/nginx/modules/ngx_http_lua_module.so"

// nginxLua is what people build from nginx, Lua and Redis: one EVALSHA per
// request, a fixed window on the server's clock, pooled connections.
const nginxLua = `
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module ` + luaModule + `;
` + nginxHead + `
  lua_package_path "/usr/share/lua/5.1/?.lua;;";
  upstream target { server %[4]s; keepalive 128; keepalive_requests 1000000000; }
  server { listen %[3]s reuseport;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header Host $http_host;
    location / {
      access_by_lua_block {
        local redis = require "nginx.redis"
        local r = redis:new()
        r:set_timeout(100)
        local ok, err = r:connect("%[5]s", %[6]s)
        if not ok then ngx.log(ngx.ERR, err) return ngx.exit(503) end
        local script = [[
          local w = tonumber(ARGV[2])
          local key = KEYS[1] .. ':' .. math.floor(tonumber(redis.call('TIME')[1]) / w)
          local n = redis.call('INCR', key)
          if n == 1 then redis.call('EXPIRE', key, w + 1) end
          return n <= tonumber(ARGV[1]) and 1 or 0
        ]]
        if not weir_sha then weir_sha = assert(r:script("LOAD", script)) end
        local admitted = r:evalsha(weir_sha, 1, "global", 1000000000, 3600)
        r:set_keepalive(60000, 128)
        if admitted ~= 1 then return ngx.exit(429) end
      }
      proxy_pass http://target;
    }
  }
}`

// A shared contestant decides in a Redis of its own.
type shared struct {
	contestant
	redis *rig.Redis
}

// redis: what a limit in Redis costs.
func (l *lab) redis() error {
	l.heading("Forwarding with a limit in Redis (exact, shared), 64 connections, one loop against one worker, a Redis each")
	_, target, err := l.keep(nginx(l.ctx, l.dir, nginxStatic, 1))
	if err != nil {
		return err
	}
	ours, err := l.sharedOurs(target)
	if err != nil {
		return err
	}
	if _, err := os.Stat(luaModule); err != nil {
		fmt.Fprintln(l.out, "nginx with Lua is not installed: left out (make bench-setup installs it)")
		return l.latencyOf(target, ours.contestant)
	}
	peer, err := l.sharedNginx(target)
	if err != nil {
		return err
	}
	if err := l.compareShared(peer, ours); err != nil {
		return err
	}
	return l.latencyOf(target, peer.contestant, ours.contestant)
}

func (l *lab) startRedis() (*rig.Redis, error) {
	r, err := rig.StartRedis(l.ctx)
	if err != nil {
		return nil, err
	}
	l.ending = append(l.ending, r.End)
	return r, nil
}

func (l *lab) sharedOurs(target string) (*shared, error) {
	r, err := l.startRedis()
	if err != nil {
		return nil, err
	}
	c, err := l.weir("weir + Redis", target, "REDIS_HOST="+r.Addr)
	return &shared{c, r}, err
}

func (l *lab) sharedNginx(target string) (*shared, error) {
	r, err := l.startRedis()
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(r.Addr, ":")
	c, err := l.contestant("nginx + Lua + Redis")(nginx(l.ctx, l.dir, nginxLua, 1, target, host, port))
	return &shared{c, r}, err
}

// run is sample with the work of Redis.
func (s *shared) run(l *lab) (sample, error) {
	before, err := rig.CPU(s.redis.Pid())
	if err != nil {
		return sample{}, err
	}
	got, err := l.sample(s.contestant, connections, l.span)
	if err == nil && got.failed > 0 {
		err = fmt.Errorf("%s: %d of its answers failed", s.name, got.failed)
	}
	if err != nil {
		return got, err
	}
	after, err := rig.CPU(s.redis.Pid())
	got.store = micros(after-before) / got.requests
	return got, err
}

func (l *lab) compareShared(peer, ours *shared) error {
	sides := []*shared{peer, ours}
	runs, err := l.each(len(sides), func(i int) (sample, error) { return sides[i].run(l) })
	if err != nil {
		return err
	}
	l.table("", peer.name, ours.name, "ratio (min … max)")
	for _, f := range []struct {
		name   string
		digits int
		of     func(sample) float64
	}{{"requests/s", 0, perSec}, {"proxy's CPU µs per request", 1, cpuEach}, {"Redis' CPU µs per request", 2, storeCPU}} {
		l.row(f.name, medianOf(runs[0], f.digits, f.of), medianOf(runs[1], f.digits, f.of), ratioOf(runs[1], runs[0], f.of))
	}
	m, err := rig.Scrape(l.ctx, hostOf(ours.url))
	if err != nil {
		return err
	}
	l.row("commands per decision", "1", fmt.Sprintf("%.3f", m.Sum("ratelimiter_store_commands_total")/m.Sum("ratelimiter_store_decisions_total")), "")
	return nil
}
