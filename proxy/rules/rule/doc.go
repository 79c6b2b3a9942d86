// Package rule determines which limits apply to a request.
//
// A [Rule] has a match, a key and a limit: which requests it applies to, what is counted
// separately within it, and how much of that may pass. [Read] makes a [Set] from a file and
// from the limits of single clients. [Set.Match] returns the rules that apply to a request as
// [MatchedRule]s, about which the store is asked. The package counts nothing itself. A few
// rules are not in the file but in settings. [CandidateRule] is the limit that the advisor
// recommends: it may be counted without being enforced.
//
// # Files
//
// Rules are YAML or JSON, in the form of /config/rules, or a descriptor file of
// envoyproxy/ratelimit. Reading is strict: unknown fields are faults (but see
// [Options].Unknown), invalid values are not replaced by defaults, and all faults are
// reported at once, each [Fault] with its line, its path, what was found and what is
// allowed.
//
// # Keys
//
// A key is a list of parts, each preceded by its length, so that no two lists give the
// same key. A missing value is a part of its own, shared by all requests that lack the
// value, so a client cannot avoid a limit by leaving a field out. A rule may skip or
// refuse such requests instead: see [MissingPolicy]. The value of a field is that of its first
// line, even if the Connection field names it or the proxy does not forward it. The value
// of a cookie or parameter is its first.
//
// # Paths
//
// Rules see a path in a normal form, so a client cannot avoid a limit by writing the path
// differently. Targets differ in how they read escaped slashes and path parameters. For
// such paths a rule applies if it applies to any of the interpretations: see
// [pattern.AppendPathPart].
//
// # Exemptions
//
// No limit applies to requests that a rule with exempt: true matches, by path, method and
// address: see [Set.Exempt]. A path is exempt only if it is written in its normal form
// and has one interpretation.
//
// # Bounds
//
// All rules that apply to a request are decided together with the global limit. There may
// be at most 8. A file in which more could apply to one request is refused when it is
// read.
//
// If parts of a key have several interpretations, the rule matches once for each key that they make.
// These parts count as missing instead if one of them has more than four interpretations, or if the
// request would then have more than eight matches. Only the interpretations of a path can make more than
// eight rules apply; such a request is answered 400.
package rule
