// Package rule says who is limited by what.
//
// A [Rule] is a match, a key and a limit: which requests it is about, what is
// counted apart within it, and how much of that may pass. [Read] makes a [Set]
// of a file and of the limits of single clients; [Set.Match] says which rules
// apply to a request, as [Hit]s: what the store has to be asked. Nothing is
// counted here.
//
// # Files
//
// Rules are YAML or JSON, in the form of /config/rules, or a descriptor file of
// envoyproxy/ratelimit. Reading is strict: unknown fields are faults (but see
// [Options].Unknown), nothing that is wrong is replaced by a default, and all faults
// are reported at once, each [Fault] with its line, its path, what was found and what
// is allowed.
//
// # Keys
//
// A key is a list of parts, each with its length before it, so that no two lists
// give the same key. What a request lacks is a part of its own, shared by all
// requests that lack it: leaving a field out is no way around a limit. A rule may skip
// or refuse such requests instead: see [Missing]. The value
// of a field is that of its first line, also when the Connection field names it
// or the proxy does not forward it; that of a cookie or parameter is its first.
//
// # Paths
//
// Rules see a path in a normal form, so that writing it in another way is no way
// around a limit. Where targets differ in what they make of a path, which is with
// escaped slashes and parameters, a rule applies when it applies to one of the
// readings: see [pattern.AppendPath].
//
// # Exemptions
//
// No limit applies to what a rule with exempt: true matches, by path, method and
// address: see [Set.Exempt]. A path is exempt only when it is written in its normal
// form and has one reading.
//
// # Bounds
//
// All rules that apply are decided together with the global limit, at most 8 of
// them: a file in which more could apply is refused when it is read.
package rule
