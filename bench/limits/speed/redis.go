package speed

import (
	"fmt"
	"os"
	"strings"

	"weir/bench/lab/rig"
)

// luaModule is the module of Debian's libnginx-mod-http-lua.
const luaModule = "/usr/lib/nginx/modules/ngx_http_lua_module.so"

// nginxLua is a typical limiter of nginx, Lua and Redis: one EVALSHA per request, a fixed window
// by the server's clock, pooled connections.
const nginxLua = `
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module ` + luaModule + `;
` + nginxHead + `
  lua_package_path "/usr/share/lua/5.1/?.lua;;";
  upstream target { server %[4]s; keepalive 128; keepalive_requests 1000000000; }
  server { listen %[2]s reuseport;
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

// shared returns the sides with a limit in a separate Redis each; only ours if nginx has no Lua.
func shared() (sides []side) {
	if _, err := os.Stat(luaModule); err == nil {
		sides = append(sides,
			side{name: "nginx + Lua + Redis", ownRedis: true, start: func(l *lab, target, redis string) (*rig.Process, string) {
				host, port, _ := strings.Cut(redis, ":")
				return l.StartPeer(rig.Nginx(nginxLua), 1, target, host, port)
			}})
	}
	ours := weir("weir + Redis")
	ours.ownRedis = true
	return append(sides, ours)
}

// redis compares the cost of a limit in Redis.
func redis() comparison {
	return comparison{heading: "Forwarding with a limit in Redis (exact, shared), 64 connections, one loop against one " +
		"worker, a Redis each", sides: shared(), show: withRedis}
}

func withRedis(l *lab, all []rig.ComparedProgram, runs [][]rig.Measurement) {
	if len(all) == 1 {
		l.Note("nginx with Lua is not installed: left out (make bench-setup installs it)")
		return
	}
	l.Head("", all[0].Name, all[1].Name, "ratio (min … max)")
	l.pair("requests/s", 0, rig.PerSecond, runs[0], runs[1])
	l.pair("proxy's CPU µs per request", 1, rig.CPUPerRequest, runs[0], runs[1])
	l.pair("Redis' CPU µs per request", 2, rig.RedisCPUPerRequest, runs[0], runs[1])
	l.Row("commands per decision", "1", l.perDecision(all[1:]), "")
}

// perDecision returns the number of commands per decision of our proxies' stores.
func (l *lab) perDecision(all []rig.ComparedProgram) string {
	var commands, decisions float64
	for _, c := range all {
		m := l.Scrape(c.Addr)
		commands, decisions = commands+m.Sum("ratelimiter_store_commands_total"),
			decisions+m.Sum("ratelimiter_store_decisions_total")
	}
	return fmt.Sprintf("%.3f", commands/decisions)
}
