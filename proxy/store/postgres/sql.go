package postgres

import (
	"embed"
	"strconv"
	"strings"
)

//go:embed sql
var sql embed.FS

// Script returns files of folder sql one after another; each needs those before it.
func Script(sql embed.FS, files ...string) string {
	all := make([]string, len(files))
	for i, file := range files {
		text, err := sql.ReadFile("sql/" + file + ".sql")
		if err != nil {
			panic("bug: " + err.Error())
		}
		all[i] = string(text)
	}
	return strings.Join(all, "\n")
}

// schemaVersion is the version of the schema that this program needs. The names of functions
// contain the version that introduced them, so that programs of older versions that are running
// continue after a migration; they cannot start afterwards. A function may be replaced under its
// name by one that does the same for the calls of older programs, as was done with take_1, most
// recently for debt, and with sweep_1 since all were given an owner without other rights.
const schemaVersion = 10

// Schema returns the script that creates the tables and functions in a schema of that name. With
// durable the states of keys are in logged tables, so that they survive a crash. The name must be
// one that [CheckSchema] accepts.
func Schema(name string, durable bool) string {
	unlogged, async := "UNLOGGED", ""
	if durable { // no decision waits for the disk: a crash may forget its last half second
		unlogged, async = "", "PERFORM set_config('synchronous_commit', 'off', true);"
	}
	r := strings.NewReplacer("@schema@", quoted(name), "@unlogged@", unlogged, "@durable@", async)
	return r.Replace(Script(sql, "schema", "state", "take_1", "take_many_1", "rest_1"))
}

// InstallScript returns the SQL that runs scripts in a schema of that name for an administrator: as one
// transaction that first creates the schema and its owner, role weir_owner, or fails if another role has
// created any of it. It may be run again.
func InstallScript(name string, scripts ...string) string { return owned(name, false, scripts) }

// owned returns what InstallScript does. If alone is true a proxy runs it, which owns what it creates
// unless it is a superuser.
func owned(name string, alone bool, scripts []string) string {
	r := strings.NewReplacer("@schema@", quoted(name), "@name@", name, "@alone@", strconv.FormatBool(alone))
	return r.Replace(Script(sql, "owner")) + "\n" + strings.Join(scripts, "\n") + "\nCOMMIT;\n"
}

// ownerRole is the role that owns what an administrator has created.
const ownerRole = "weir_owner"

// quoted returns an identifier in quotes. Names consist of lower-case letters, digits and _, and
// some are keywords.
func quoted(name string) string { return `"` + name + `"` }
