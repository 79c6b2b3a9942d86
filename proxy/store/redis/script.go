package redis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed lua
var lua embed.FS

// A Script is a Lua script with its SHA-1, by which Redis knows it after its first run.
//
// Immutable after New.
type Script struct {
	source string
	sha    string
}

// NewScript returns the script with that text.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// ScriptSource returns files of folder lua one after another.
func ScriptSource(lua embed.FS, files ...string) string {
	var all strings.Builder
	for _, file := range files {
		text, err := lua.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic("bug: " + err.Error())
		}
		all.Write(text)
	}
	return all.String()
}

// scripts are the scripts of a backend.
//
// Immutable after New.
type scripts struct {
	take, give, add, kinds, document, lease, probe *Script
}

func newScripts() scripts {
	of := func(files ...string) *Script { return NewScript(ScriptSource(lua, files...)) }
	return scripts{
		take: of("state", "log", "take"), give: of("state", "log", "give"), add: of("state", "log", "add"),
		kinds:    of("kinds"),
		document: of("document"), lease: of("lease"), probe: of("probe"),
	}
}

// A call is a call of a script.
type call struct {
	script *Script
	keys   []string
	args   []string
}

// command returns the call by SHA-1, or with the full script for a server that does not have
// it.
func (c *call) command(b rueidis.Builder, full bool) rueidis.Completed {
	if full {
		return b.Eval().Script(c.script.source).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	return b.Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

// runAll makes calls together. Those for which the server does not have the script were not
// executed, and are sent again in full. Nothing else is sent twice.
func runAll(b rueidis.Builder, calls []call,
	exchange func([]rueidis.Completed) []rueidis.RedisResult) (replies []rueidis.RedisResult, reloads int) {
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
