package redis

import (
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"

	"github.com/redis/rueidis"
)

//go:embed lua/state.lua
var stateLua string

//go:embed lua/log.lua
var logLua string

//go:embed lua/take.lua
var takeLua string

//go:embed lua/give.lua
var giveLua string

//go:embed lua/add.lua
var addLua string

//go:embed lua/kinds.lua
var kindsLua string

//go:embed lua/document.lua
var documentLua string

//go:embed lua/lease.lua
var leaseLua string

//go:embed lua/probe.lua
var probeLua string

// A script is a program for Redis and the name under which Redis knows it once
// it has run it.
//
// Immutable after New.
type script struct {
	source string
	sha    string
}

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// scripts are all that a client runs.
//
// Immutable after New.
type scripts struct {
	take, give, add, kinds, document, lease, probe *script
}

func newScripts() scripts {
	return scripts{
		take:     newScript(stateLua + logLua + takeLua),
		give:     newScript(stateLua + logLua + giveLua),
		add:      newScript(stateLua + logLua + addLua),
		kinds:    newScript(kindsLua),
		document: newScript(documentLua),
		lease:    newScript(leaseLua),
		probe:    newScript(probeLua),
	}
}

// A call is one run of a script that is being put together.
type call struct {
	script *script
	keys   []string
	args   []string
}

// command returns the call by name, or in full for a server that does not know
// the script.
func (c *call) command(b rueidis.Builder, full bool) rueidis.Completed {
	if full {
		return b.Eval().Script(c.script.source).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	return b.Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

// runAll makes calls together, those for which the server does not know the script once
// more in full: they have not run. Nothing else is ever sent twice.
func runAll(b rueidis.Builder, calls []call, exchange func([]rueidis.Completed) []rueidis.RedisResult) (replies []rueidis.RedisResult, reloads int) {
	commands := make([]rueidis.Completed, len(calls))
	for i := range calls {
		commands[i] = calls[i].command(b, false)
	}
	replies = exchange(commands)
	var again []rueidis.Completed
	var at []int
	for i, reply := range replies {
		if unknownScript(reply.Error()) {
			at = append(at, i)
			again = append(again, calls[i].command(b, true))
		}
	}
	if len(again) > 0 {
		for i, reply := range exchange(again) {
			replies[at[i]] = reply
		}
	}
	return replies, len(again)
}
